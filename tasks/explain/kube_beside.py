"""Trouble of what stands beside the program in its pods: it is never up, or has ended and was started again."""

from __future__ import annotations

from runtime.contract.counting import counted
from tasks.explain.kube_scene import KubeScene, line, trouble
from tasks.explain.scene import Trouble
from tasks.targets.kube_pods import current
from tasks.targets.kube_standing import standing


def sidecar(scene: KubeScene) -> Trouble | None:
    """A container ends that the program cannot do without."""
    pods = current(scene.objects.pods, scene.objects.workload, scene.found.restarts)
    ended = [one for pod in pods for one in standing(pod) if one.ends]
    if not ended:
        return None
    late = [one for one in ended if not one.was_up]
    worst = max(late or ended, key=lambda one: one.ends)
    if late:
        what = f"{worst.container}, which has to be up before the program begins, ends each time before it is"
    else:
        what = f"{worst.container}, which stands beside the program, has ended, and was started again: what went "
        what += "through it meanwhile failed"
    evidence = [
        line(
            {"kind": "Pod", "metadata": {"name": one.pod}},
            f"container {one.container} has ended {counted(one.ends, 'time')}, and {one.end} at last",
        )
        for one in (late or ended)[:3]
    ]
    logs = f"{scene.logs} --container {worst.container} --pod {worst.pod}"
    return trouble("sidecar", what, evidence, (logs, scene.delete) if late else (logs,))
