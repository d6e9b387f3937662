"""What one pod of a JobSet says: which worker it is, whether it runs, what it waits for, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tasks.cloud.kubernetes_labels import (
    COMPLETION_INDEX,
    JOB_INDEX,
    JOB_NAME,
    REPLICATED_JOB,
    RESTART_ATTEMPT,
)
from tasks.targets.kube_objects import (
    Condition,
    Object,
    condition,
    created_at,
    is_true,
    label,
    metadata,
    name,
    number,
    seconds,
    spec,
    status,
)

CANNOT_START = frozenset(
    {
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
        "PostStartHookError",
    }
)
"""What a container waits for that does not come by waiting."""

_ONE_AND_THE_SAME = {"ErrImagePull": "ImagePullBackOff"}
"""The kubelet goes from one to the other and back for as long as it tries."""


def of_one_kind(reason: str) -> str:
    """Returns what a container waits for, by the one word for it."""
    return _ONE_AND_THE_SAME.get(reason, reason)


@dataclass(frozen=True, order=True)
class Slot:
    """Which worker a pod is. It may have several pods, one after the other. A Job without indices has only -1."""

    replicated_job: str
    job_index: int
    index: int


@dataclass(frozen=True)
class Waiting:
    """What a container waits for."""

    pod: str
    container: str
    reason: str
    message: str

    @property
    def stuck(self) -> bool:
        """Whether it waits for something that does not come by itself."""
        return self.reason in CANNOT_START


@dataclass(frozen=True)
class End:
    """How a container ended, or a pod that nobody could ask for its containers: `container` is empty then."""

    pod: str
    container: str
    exit_code: int | None
    reason: str
    message: str
    at: float | None


def slot_of(pod: Object) -> Slot:
    """Returns which worker a pod is."""
    index = label(pod, COMPLETION_INDEX) or (metadata(pod).get("annotations") or {}).get(COMPLETION_INDEX)
    return Slot(
        label(pod, REPLICATED_JOB), number(label(pod, JOB_INDEX)), -1 if index is None else number(index)
    )


def numbered(pods: Iterable[Object]) -> list[tuple[int, Object]]:
    """Returns pods with their workers' numbers, in order: they count over all slices, and a later pod of one worker is
    the same.
    """
    found = list(pods)
    slots: list[Slot] = sorted({slot_of(one) for one in found})
    told = [(slots.index(slot_of(one)), one) for one in found]
    return sorted(told, key=lambda two: (two[0], name(two[1])))


def attempt_of(one: Object) -> int:
    """Returns at which restart of its JobSet a Job or pod was made; the first are of 0."""
    return number(label(one, RESTART_ATTEMPT))


def job_of(pod: Object) -> str:
    """Returns the name of a pod's Job."""
    return label(pod, JOB_NAME) or label(pod, "job-name")


def current(pods: Iterable[Object], workload: Object | None, restarts: int) -> list[Object]:
    """Returns each worker's latest pod of the present attempt. A Workload that was evicted starts again under the same
    number, so what is being deleted and is older than its admission is of the attempt before.
    """
    admitted = is_true(workload, "Admitted")
    admitted_at = admitted.since if admitted is not None else None
    latest: dict[Slot | str, Object] = {}
    for pod in pods:
        if attempt_of(pod) < restarts or _is_of_before(pod, admitted_at):
            continue
        slot = slot_of(pod)
        key: Slot | str = slot if slot.index >= 0 else name(pod)
        if key not in latest or _age(pod) > _age(latest[key]):
            latest[key] = pod
    return list(latest.values())


def asked_to_go(pod: Object) -> float | None:
    """Returns when somebody asked for a pod's deletion, in seconds since the epoch: its grace ends when it says."""
    ends = seconds(metadata(pod).get("deletionTimestamp"))
    return None if ends is None else ends - number(metadata(pod).get("deletionGracePeriodSeconds"))


def is_being_deleted(pod: Object) -> bool:
    """Says whether somebody deleted the pod: it ends within its grace, and is gone then."""
    return bool(metadata(pod).get("deletionTimestamp"))


def unschedulable(pod: Object) -> Condition | None:
    """Returns why no node takes the pod, if the scheduler said so."""
    found = condition(pod, "PodScheduled")
    return found if found is not None and not found.true else None


def disruption(pod: Object) -> Condition | None:
    """Returns why the pod was taken away, if it was: preempted by another, its node drained, shut down or lost."""
    return is_true(pod, "DisruptionTarget")


def is_running(pod: Object) -> bool:
    """Says whether the program of a pod runs: a pod in phase Running may wait to start its container again."""
    if status(pod).get("phase") != "Running":
        return False
    containers = _main_containers(pod)
    return all(_state(one).get("waiting") is None for one in containers)


def has_ended(pod: Object) -> bool:
    """Says whether a pod ended, well or not."""
    return status(pod).get("phase") in ("Succeeded", "Failed")


def waits(pod: Object) -> Iterator[Waiting]:
    """Yields what a pod's containers wait for, those that prepare included."""
    for one in (*_statuses(pod, "initContainerStatuses"), *_statuses(pod, "containerStatuses")):
        if waiting := _state(one).get("waiting"):
            reason = str(waiting.get("reason") or "")
            yield Waiting(
                name(pod),
                str(one.get("name") or ""),
                of_one_kind(reason),
                str(waiting.get("message") or ""),
            )


def failures(pod: Object) -> Sequence[End]:
    """Returns the containers of a pod that ended with an error, the first before the others, those that wait to be
    started again included; or the pod itself where it failed and has no word of its containers. What stands beside
    the program is no part of that: kube_standing.py.
    """
    if status(pod).get("phase") == "Succeeded":
        return ()
    sidecars = {one.get("name") for one in spec(pod).get("initContainers") or () if one.get("restartPolicy")}
    ends = [
        end
        for one in (*_statuses(pod, "initContainerStatuses"), *_statuses(pod, "containerStatuses"))
        if one.get("name") not in sidecars and (end := _end(pod, one)) is not None
    ]
    if ends:
        return sorted(ends, key=lambda end: end.at or 0.0)
    if status(pod).get("phase") != "Failed":
        return ()
    why = disruption(pod)
    reason = str(status(pod).get("reason") or (why.reason if why else "") or "Failed")
    message = str(status(pod).get("message") or (why.message if why else ""))
    ready = condition(pod, "Ready")
    at = why.since if why else (ready.since if ready else None)
    return (End(name(pod), "", None, reason, message, at),)


def started_at(pod: Object) -> float | None:
    """Returns when the last of a pod's containers started, in seconds since the epoch."""
    times = [
        at
        for one in _main_containers(pod)
        if (
            at := seconds(
                (_state(one).get("running") or _state(one).get("terminated") or {}).get("startedAt")
            )
        )
    ]
    return max(times, default=None)


def ended_at(pod: Object) -> float | None:
    """Returns when the last of a pod's containers ended, in seconds since the epoch; None while that is not known."""
    ends = [seconds((_state(one).get("terminated") or {}).get("finishedAt")) for one in _main_containers(pod)]
    return max((at for at in ends if at is not None), default=None)


def _end(pod: Object, container: Object) -> End | None:
    """Returns the last bad end of a container: one that waits to be started again tells it in lastState."""
    told = _state(container).get("terminated")
    if _state(container).get("waiting"):
        told = (container.get("lastState") or {}).get("terminated")
    if not told or not number(told.get("exitCode")):
        return None
    return End(
        name(pod),
        str(container.get("name") or ""),
        number(told.get("exitCode")),
        str(told.get("reason") or ""),
        str(told.get("message") or ""),
        seconds(told.get("finishedAt")),
    )


def _main_containers(pod: Object) -> list[Object]:
    return _statuses(pod, "containerStatuses")


def _statuses(pod: Object, field: str) -> list[Object]:
    return list(status(pod).get(field) or ())


def _state(container: Object) -> Object:
    return container.get("state") or {}


def _age(pod: Object) -> tuple[float, bool, int]:
    """Orders pods of one worker: times have whole seconds only, so of two of one second the one that stays counts."""
    return created_at(pod) or 0.0, not is_being_deleted(pod), number(metadata(pod).get("resourceVersion"))


def _is_of_before(pod: Object, admitted_at: float | None) -> bool:
    made_at = created_at(pod)
    return is_being_deleted(pod) and admitted_at is not None and made_at is not None and made_at < admitted_at


def node_of(pod: Object) -> str:
    """Returns the node that a pod is on; empty: none yet."""
    return str(spec(pod).get("nodeName") or "")


def container_names(pod: Object) -> list[str]:
    """Returns the names of a pod's containers, without those that only prepare it."""
    return [str(one.get("name")) for one in spec(pod).get("containers") or ()]
