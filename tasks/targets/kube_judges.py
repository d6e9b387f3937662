"""The states that a JobSet goes through, a function each: whether it is in that one, by its objects, and why.

They take objects, pods of the attempt that counts, and what is known already; the first that knows is right.
Conditions are picked by type and judged by status; their reasons and messages are text for people, since every version
of Kueue words them differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runtime.contract.counting import counted
from tasks.cloud.kubernetes_labels import QUEUE_NAME
from tasks.targets.kube_cause import Cause, first_cause
from tasks.targets.kube_counts import all_ready, expected_pods, jobs_refused, running_since, underlying
from tasks.targets.kube_found import ADMISSION_CHECK, DELETED, NO_WORKLOAD, RAN_TOO_LONG, Found, KubeState
from tasks.targets.kube_objects import (
    Condition,
    Object,
    Objects,
    condition,
    created_at,
    is_true,
    label,
    metadata,
    said,
    seconds,
    spec,
    status,
)
from tasks.targets.kube_pods import has_ended, is_running, unschedulable, waits
from tasks.targets.kube_queue import position
from tasks.targets.kube_standing import NOT_UP, standing

_GONE_TOO_SOON = "its JobSet was deleted before it ended"
_OFF = "its Workload is switched off, and waits until somebody makes it active"


def ended(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
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
        return replace(
            base, state=KubeState.FAILED, reason=DELETED, message=_GONE_TOO_SOON, since=finished.since
        )
    return _failed(base, finished, "Failed")


def deleted(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """From the moment somebody deletes it, it only ends: its controller looks at it no more."""
    deleting = seconds(metadata(now.jobset).get("deletionTimestamp"))
    gone = now.jobset is None and now.deleted is not None
    if deleting is None and not gone:
        return None
    return replace(base, state=KubeState.FAILED, reason=DELETED, message=_GONE_TOO_SOON, since=deleting)


def took_too_long(workload: Object | None) -> bool:
    """Says whether Kueue switched a Workload off because it ran for longer than it may."""
    evicted = is_true(workload, "Evicted")
    if evicted is None or spec(workload).get("active") is not False:
        return False
    return RAN_TOO_LONG in " ".join((evicted.reason, *underlying(workload)))


def evicted(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
    """Kueue took its quota back: it waits, from the start again, and is no failure; unless it ran too long for the
    limit that its labels set, after which it is not started again.
    """
    evicted = is_true(now.workload, "Evicted")
    if evicted is None:
        return None
    if took_too_long(now.workload):
        return _as(base, KubeState.FAILED, evicted)
    found = _as(base, KubeState.PREEMPTED, evicted)
    if spec(now.workload).get("active") is False:
        return replace(found, message=f"{found.message}; {_OFF}")
    waiting = condition(now.workload, "QuotaReserved")
    if waiting is not None and not waiting.true:
        found = _at_place(now, replace(found, message=f"{found.message}; now: {waiting.message}"))
    return found


def queued(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
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


def provisioning(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
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


def started(now: Objects, pods: Sequence[Object], base: Found) -> Found | None:
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


def starting(now: Objects, pods: Sequence[Object], base: Found) -> Found:
    """It may start: JobSet makes its Jobs, the Jobs their pods, and these their containers."""
    admitted = is_true(now.workload, "Admitted")
    began = max((created_at(pod) or 0.0 for pod in pods), default=admitted.since if admitted else None)
    base = replace(base, state=KubeState.STARTING, since=began)
    beside = next((one for pod in pods for one in standing(pod) if one.ends and not one.was_up), None)
    if beside is not None:
        times = counted(beside.ends, "time")
        told = f"{beside.place} has ended {times} before the program began, and {beside.end} at last"
        return replace(base, reason=NOT_UP, message=told)
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


JUDGES = (ended, deleted, evicted, queued, provisioning, started)
"""In the order in which they are asked; what none of them knows is `starting`."""


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
