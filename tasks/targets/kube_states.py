"""In which state a JobSet is, why, and by what evidence: the one place that decides it, for following, listing and
explaining.

    found = None
    while ...:
        found = look(objects, found)

Conditions are picked by type and judged by status; their reasons and messages are text for people, since every version
of Kueue words them differently. Nothing here asks a server or a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tasks.targets.kube_cause import Cause, first_cause
from tasks.targets.kube_counts import (
    all_ready,
    evictions,
    expected_pods,
    jobs_refused,
    running_since,
    seen_evictions,
    underlying,
)
from tasks.targets.kube_found import ADMISSION_CHECK, NO_WORKLOAD, Found, KubeState
from tasks.targets.kube_objects import (
    QUEUE_NAME,
    Condition,
    Object,
    Objects,
    condition,
    created_at,
    is_true,
    label,
    metadata,
    number,
    said,
    seconds,
    spec,
    status,
)
from tasks.targets.kube_pods import (
    attempt_of,
    current,
    has_ended,
    is_running,
    unschedulable,
    waits,
)
from tasks.targets.kube_queue import position


def look(now: Objects, last: Found | None = None) -> Found:
    """Returns the state of a JobSet from its objects and from what the look before came to.

    A watch tells of one kind after the other when it begins: that something is not known yet is not taken for its end.
    """
    if last is not None and last.over and last.state != KubeState.GONE:
        later = _look(now, last) if last.state == KubeState.FAILED and now.jobset is not None else last
        return (
            later if later.state == last.state else last
        )  # its end may be told before what brought it about
    return _look(now, last)


def _look(now: Objects, last: Found | None) -> Found:
    jobset = now.jobset or now.deleted
    seen = jobset is not None or (last is not None and last.seen)
    if jobset is None and (seen or now.workload is None) and not is_true(now.workload, "Finished"):
        return _not_there(now, last)
    evicted = is_true(now.workload, "Evicted")
    restarts = max(number(status(jobset).get("restarts")), last.restarts if last else 0)
    pods = current(now.pods, restarts, _admitted_at(now))
    base = Found(
        KubeState.QUEUED,
        restarts=restarts,
        counted=max(number(status(jobset).get("restartsCountTowardsMax")), last.counted if last else 0),
        evictions=max(evictions(now.workload), seen_evictions(evicted, last)),
        evicted=evicted is not None,
        causes=_causes(now, pods, restarts, evicted, last),
        seen=seen,
    )
    for judge in (_ended, _deleted, _evicted, _queued, _provisioning, _started):
        if (found := judge(now, pods, base)) is not None:
            return found
    return _starting(now, pods, base)


def _not_there(now: Objects, last: Found | None) -> Found:
    if last is not None and last.seen:
        if last.state == KubeState.GONE:
            return last
        told = (
            f"it was {last.state} when it was last seen and is not there any more: how it ended is not known"
        )
        return replace(
            last, state=KubeState.GONE, reason="ResultUnknown", message=told, since=None, position=None
        )
    if now.jobs or now.pods or now.events:
        return Found(KubeState.QUEUED, "NotSeen", "nothing was told of its JobSet yet")
    return Found(KubeState.GONE, "NotFound", "there is no JobSet of this name")


def _ended(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """How JobSet ended it, else how Kueue says it did, which comes later."""
    jobset = now.jobset or now.deleted
    terminal = status(jobset).get("terminalState")
    if (done := is_true(jobset, "Completed")) or terminal == "Completed":
        return _as(base, KubeState.SUCCEEDED, done, reason="Completed")
    if (failed := is_true(jobset, "Failed")) or terminal == "Failed":
        return _failed(base, failed, "Failed")
    finished = is_true(now.workload, "Finished")
    if finished is None:
        return None
    if finished.reason == "Succeeded":
        return _as(base, KubeState.SUCCEEDED, finished)
    if finished.reason == "OwnerNotFound":
        return replace(base, state=KubeState.FAILED, reason="Deleted", message=_DELETED, since=finished.since)
    return _failed(base, finished, "Failed")


_DELETED = "its JobSet was deleted before it ended"
_OFF = "its Workload is switched off, and waits until somebody makes it active"
_RAN_TOO_LONG = "MaximumExecutionTimeExceeded"


def _deleted(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """From the moment somebody deletes it, it only ends: its controller looks at it no more."""
    deleting = seconds(metadata(now.jobset).get("deletionTimestamp"))
    gone = now.jobset is None and now.deleted is not None
    if deleting is None and not gone:
        return None
    return replace(base, state=KubeState.FAILED, reason="Deleted", message=_DELETED, since=deleting)


def _evicted(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """Kueue took its quota back: it waits, from the start again, and is no failure; unless it ran too long for the
    limit that its labels set, after which it is not started again.
    """
    evicted = is_true(now.workload, "Evicted")
    if evicted is None:
        return None
    off = spec(now.workload).get("active") is False
    if off and _RAN_TOO_LONG in " ".join((evicted.reason, *underlying(now.workload))):
        return _as(base, KubeState.FAILED, evicted)
    found = _as(base, KubeState.PREEMPTED, evicted)
    if off:
        return replace(found, message=f"{found.message}; {_OFF}")
    waiting = condition(now.workload, "QuotaReserved")
    if waiting is not None and not waiting.true:
        found = _at_place(now, replace(found, message=f"{found.message}; now: {waiting.message}"))
    return found


def _queued(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """Kueue has not given it quota."""
    if now.workload is None:
        return _queued_without_workload(now, base)
    if is_true(now.workload, "Admitted") or is_true(now.workload, "QuotaReserved"):
        return None
    if spec(now.workload).get("active") is False:
        return replace(base, state=KubeState.QUEUED, reason="Deactivated", message=_OFF)
    why = condition(now.workload, "QuotaReserved")
    found = _as(base, KubeState.QUEUED, why, reason="Pending", message="Kueue has not looked at it yet")
    return _at_place(now, replace(found, since=found.since or created_at(now.workload)))


def _queued_without_workload(now: Objects, base: Found) -> Found | None:
    """Without a queue's name Kueue has nothing to do with it; with one its Workload comes after a moment, if at all,
    and it is suspended until Kueue lets it go on.
    """
    since = created_at(now.jobset)
    if not spec(now.jobset).get("suspend"):
        return None
    if label(now.jobset, QUEUE_NAME):
        told = "Kueue has made no Workload for it yet"
        return replace(base, state=KubeState.QUEUED, reason=NO_WORKLOAD, message=told, since=since)
    told = "it is suspended, and names no queue whose turn it could wait for"
    return replace(base, state=KubeState.QUEUED, reason="Suspended", message=told, since=since)


def _provisioning(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """It has quota, and waits for hardware: for what Kueue is to have checked, or for nodes that take its pods."""
    if now.workload is not None and not is_true(now.workload, "Admitted"):
        reserved = is_true(now.workload, "QuotaReserved")
        for check in status(now.workload).get("admissionChecks") or ():
            if check.get("state") != "Ready":
                told = f"admission check {check.get('name')} is {check.get('state')}"
                told += f": {check['message']}" if check.get("message") else ""
                since = seconds(check.get("lastTransitionTime"))
                return replace(
                    base, state=KubeState.PROVISIONING, reason=ADMISSION_CHECK, message=told, since=since
                )
        return _as(base, KubeState.PROVISIONING, reserved)
    homeless = [why for pod in pods if (why := unschedulable(pod)) is not None]
    if not homeless:
        return None
    count = f"{len(homeless)} of {expected_pods(now) or len(pods)} pods have no node"
    return replace(_as(base, KubeState.PROVISIONING, homeless[0]), message=f"{count}: {homeless[0].message}")


def _started(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """All of its pods started, or one has ended already: then it will not start any more than that."""
    word = "Started" if base.attempt == 1 else "Recovered"
    running = replace(base, state=KubeState.RUNNING, reason=word, since=running_since(now, pods))
    expected = expected_pods(now) or len(pods)
    if (cause := first_cause(now.jobs, pods, base.restarts)) is not None:
        return _failing(base, base.causes.get(base.restarts, cause), pods)
    up, ended = sum(map(is_running, pods)), sum(map(has_ended, pods))
    if pods and up + ended == len(pods) and (len(pods) >= expected or all_ready(now)):
        told = f"{max(up, expected - ended)} of {max(expected, len(pods))} pods run"
        return replace(running, message=f"{told}, {ended} have ended" if ended else told)
    if not now.pods and all_ready(now):
        return replace(running, message="JobSet says that all of its Jobs are ready")
    return None


def _failing(base: Found, cause: Cause, pods: Sequence[Object]) -> Found:
    """Something of it failed, and nobody has said yet what comes of that."""
    if cause.kind == "preempted":
        state, reason = KubeState.PREEMPTED, cause.reason
    else:
        looping = next((one.reason for pod in pods for one in waits(pod) if one.stuck), "PodFailed")
        state, reason = KubeState.RUNNING, looping
    return replace(base, state=state, reason=reason, message=str(cause), since=cause.at)


def _starting(now: Objects, pods: Sequence[Object], base: Found) -> Found:
    """It may start: JobSet makes its Jobs, the Jobs their pods, and these their containers."""
    admitted = is_true(now.workload, "Admitted")
    began = max((created_at(pod) or 0.0 for pod in pods), default=admitted.since if admitted else None)
    base = replace(base, state=KubeState.STARTING, since=began)
    stuck = next((one for pod in pods for one in waits(pod) if one.stuck), None)
    if stuck is not None:
        told = f"pod {stuck.pod}: container {stuck.container}: {stuck.message}"
        return replace(base, reason=stuck.reason, message=told)
    if pods:
        up = sum(is_running(pod) or has_ended(pod) for pod in pods)
        told = f"{up} of {expected_pods(now) or len(pods)} pods have started"
        return replace(base, reason="PodsStarting", message=told)
    if base.restarts:
        cause = base.causes.get(base.restarts - 1)
        told = f"restart {base.restarts}" + (f" after: {cause}" if cause else "")
        return replace(base, reason="Restarted", message=told)
    if not now.jobs and (refusal := jobs_refused(now)) is not None:
        return replace(base, reason="JobCreationFailed", message=said(refusal))
    return _as(base, KubeState.STARTING, admitted, reason="Created", message="it has no pods yet")


def _admitted_at(now: Objects) -> float | None:
    admitted = is_true(now.workload, "Admitted")
    return admitted.since if admitted else None


def _causes(
    now: Objects,
    pods: Sequence[Object],
    restarts: int,
    evicted: Condition | None,
    last: Found | None,
) -> Mapping[int, Cause]:
    """Returns the first cause of each attempt. Pods that end because Kueue, JobSet or somebody stops the whole of it
    are the cause of nothing.
    """
    known = dict(last.causes) if last else {}
    stopping = (
        evicted is not None
        or spec(now.jobset).get("suspend")
        or metadata(now.jobset).get("deletionTimestamp")
    )
    if now.jobset is None or stopping:
        return known
    older = [pod for pod in now.pods if restarts and attempt_of(pod) == restarts - 1]
    for attempt, of_it in ((restarts - 1, current(older, restarts - 1, _admitted_at(now))), (restarts, pods)):
        cause = first_cause(now.jobs, of_it, attempt, known.get(attempt))
        if cause is not None:
            known[attempt] = cause
    return known


def _failed(base: Found, why: Condition | None, reason: str) -> Found:
    """JobSet names no more than a Job; the cause is told before what it says."""
    found = _as(base, KubeState.FAILED, why, reason=reason)
    cause = base.causes[max(base.causes)] if base.causes else None
    return replace(found, message="; ".join(filter(None, (str(cause or ""), found.message))))


def _at_place(now: Objects, found: Found) -> Found:
    if now.workload is None or (place := position(now.workload, now.neighbours, now.queues)) is None:
        return found
    return replace(found, position=place)


def _as(
    base: Found, state: KubeState, why: Condition | None, *, reason: str = "", message: str = ""
) -> Found:
    """Returns what a condition says as a state, in its own words where it has any."""
    if why is None:
        return replace(base, state=state, reason=reason, message=message)
    return replace(
        base, state=state, reason=why.reason or reason, message=why.message or message, since=why.since
    )
