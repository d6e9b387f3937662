"""What the pods of a workload have said so far, in the order of its workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.kubernetes_kinds import POD
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.stages.workload_desk import Desk, the_jobset
from tasks.targets.kube_objects import Object, name, spec, uid_of
from tasks.targets.kube_pods import container_names, numbered


@dataclass(frozen=True)
class PodLog:
    """One pod of a workload and which worker it is, from 0 over all slices. `container`: where it has several."""

    pod: str
    worker: int
    container: str | None
    text: str


def logs(
    desk: Desk, workload: str, *, worker: int | None, pod: str | None, container: str | None, tail: int | None
) -> Iterator[PodLog]:
    """Yields what the pods of a workload have said so far, in the order of workers. Raises BadInput."""
    pods = _pods(desk, workload, worker, pod)
    _refuse_unknown(container, [one for _, one in pods], workload)
    for number, one in pods:
        there = container_names(one)
        for name_ in [container] if container else there:
            try:
                text = desk.kube.log(name(one), desk.namespace, container=name_, tail=tail)
            except KubernetesError as error:
                text = f"({error})"
            yield PodLog(name(one), number, name_ if container or len(there) > 1 else None, text)


def _pods(desk: Desk, workload: str, worker: int | None, pod: str | None) -> list[tuple[int, Object]]:
    found = numbered(desk.all(POD, f"{JOBSET_UID}={uid_of(the_jobset(desk, workload))}"))
    picked = [
        (number, one)
        for number, one in found
        if (worker is None or number == worker) and (pod is None or name(one) == pod)
    ]
    if not picked and (pod or worker is not None):
        which = f"pod {pod}" if pod else f"worker {worker}"
        there = ", ".join(name(one) for _, one in found) or "none"
        raise BadInput(f"workload {workload} has no {which}", fix=f"its pods: {there}")
    return picked


def _refuse_unknown(container: str | None, pods: Sequence[Object], workload: str) -> None:
    kinds = ("containers", "initContainers")  # sidecars of Kubernetes' own kind are among the latter
    there = sorted({str(one["name"]) for pod in pods for kind in kinds for one in spec(pod).get(kind) or ()})
    if container is not None and there and container not in there:
        raise BadInput(
            f"workload {workload} has no container {container}", fix=f"its containers: {', '.join(there)}"
        )
