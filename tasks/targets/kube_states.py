"""In which state a JobSet is: what was seen before and the one order of judges, for following, listing, explaining.

    found = None
    while ...:
        found = look(objects, found)

Nothing here asks a server or a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tasks.targets.kube_cause import Cause, first_cause
from tasks.targets.kube_counts import evictions, seen_evictions
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_judges import JUDGES, starting, took_too_long
from tasks.targets.kube_objects import Condition, Object, Objects, is_true, metadata, number, spec, status
from tasks.targets.kube_pods import attempt_of, current


def look(now: Objects, last: Found | None = None) -> Found:
    """Returns the state of a JobSet from its objects and from what the look before came to.

    A watch tells of one kind after the other when it begins: that something is not known yet is not taken for its end.
    """
    if last is None or not last.over or last.state == KubeState.GONE:
        return _look(now, last)
    if last.state == KubeState.FAILED and now.jobset is not None:
        later = _look(now, last)  # its end may be told before what brought it about
        return later if later.state == last.state else last
    return last


def is_last(kind: str, change: str, one: Object) -> bool:
    """Says whether a change (ADDED, MODIFIED, DELETED) of one of its objects is the end of a JobSet: it says so itself,
    it is gone, or Kueue stopped it for good when its time was over, of which it says nothing.
    """
    if kind == "JobSet":
        return change == "DELETED" or bool(status(one).get("terminalState"))
    return kind == "Workload" and change != "DELETED" and took_too_long(one)


def _look(now: Objects, last: Found | None) -> Found:
    jobset = now.jobset or now.deleted
    seen = jobset is not None or (last is not None and last.seen)
    if jobset is None and (seen or now.workload is None) and not is_true(now.workload, "Finished"):
        return _not_there(now, last)
    evicted = is_true(now.workload, "Evicted")
    restarts = max(number(status(jobset).get("restarts")), last.restarts if last else 0)
    pods = current(now.pods, now.workload, restarts)
    base = Found(
        KubeState.QUEUED,
        restarts=restarts,
        counted=max(number(status(jobset).get("restartsCountTowardsMax")), last.counted if last else 0),
        evictions=max(evictions(now.workload), seen_evictions(evicted, last)),
        evicted=evicted is not None,
        causes=_causes(now, pods, restarts, evicted, last),
        seen=seen,
    )
    for judge in JUDGES:
        if (found := judge(now, pods, base)) is not None:
            return found
    return starting(now, pods, base)


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


def _causes(
    now: Objects,
    pods: Sequence[Object],
    restarts: int,
    evicted: Condition | None,
    last: Found | None,
) -> Mapping[int, Cause]:
    """Returns the first cause of each attempt. Pods that end because Kueue, JobSet or somebody stops the whole of it
    are the cause of nothing; a Job that took too long is, also where Kueue has stopped it for the same reason.
    """
    known = dict(last.causes) if last else {}
    stopping = (
        evicted is not None
        or spec(now.jobset).get("suspend")
        or metadata(now.jobset).get("deletionTimestamp")
    )
    if now.jobset is None or stopping:
        late = first_cause(now.jobs, (), restarts)
        return {**known, restarts: late} if late is not None and late.kind == "deadline" else known
    older = [pod for pod in now.pods if restarts and attempt_of(pod) == restarts - 1]
    for attempt, of_it in ((restarts - 1, current(older, now.workload, restarts - 1)), (restarts, pods)):
        cause = first_cause(now.jobs, of_it, attempt, known.get(attempt))
        if cause is not None:
            known[attempt] = cause
    return known
