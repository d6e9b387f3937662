"""Troubles of a workload whose pods have all ended while nobody in the cluster takes note of it."""

from __future__ import annotations

from tasks.explain.kube_scene import KubeScene, line, trouble
from tasks.explain.scene import Trouble
from tasks.targets.kube_found import KubeState
from tasks.targets.kube_objects import Object, is_true
from tasks.targets.kube_pods import attempt_of, ended_at, has_ended

_SOON_S = 30.0
"""Controllers see an end within a second or two; one that tries again what failed does so within a minute."""
_WHERE = "kubectl get pods --namespace"


def end_not_seen(scene: KubeScene) -> Trouble | None:
    """Its pods have ended, and its Jobs or its JobSet do not say so.

    A Job counts a pod when its finalizer is off, and that is a change of the pod, which Kueue's webhook is asked about.
    """
    pods = [one for one in scene.objects.pods if attempt_of(one) == scene.found.restarts]
    ends = [at for one in pods if (at := ended_at(one)) is not None]
    if scene.found.state != KubeState.RUNNING or not ends or not all(map(has_ended, pods)):
        return None
    age = scene.now - max(ends)
    if age < _SOON_S:
        return None
    open_ = [one for one in scene.objects.jobs if not _is_over(one)]
    if open_:
        who, where = "its Jobs do not count them: Kueue is down, without whose word no pod changes", "kueue"
        blamed = line(open_[0], "is said to go on")
    else:
        who, where = "its JobSet does not say so: JobSet's controller is down", "jobset"
        blamed = line(scene.objects.jobset, "is said to go on, and its Jobs have ended")
    return trouble(
        "end_not_seen",
        f"all of its pods ended {age:.0f} s ago, and {who}. It ends by itself once that is up",
        [line(pods[0], f"has ended: phase {(pods[0].get('status') or {}).get('phase')}"), blamed],
        (f"{_WHERE} {where}-system", scene.delete),
    )


def _is_over(job: Object) -> bool:
    return is_true(job, "Complete") is not None or is_true(job, "Failed") is not None
