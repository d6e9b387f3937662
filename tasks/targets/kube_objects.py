"""How parsed Kubernetes objects are read: conditions by type, labels, owners, times; which belong to one JobSet."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tasks.cloud.kubernetes_kinds import Object as Object
from tasks.cloud.kubernetes_labels import JOB_UID, JOBSET_UID


@dataclass(frozen=True)
class Objects:
    """All that is known of one JobSet now.

    `jobset` None: there is none. `deleted` is the last of it, where a watch said DELETED. `neighbours` are Workloads
    among which its own may wait, and `queues` the LocalQueues that they name; both may be left out.
    """

    jobset: Object | None = None
    workload: Object | None = None
    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    deleted: Object | None = None
    neighbours: Sequence[Object] = ()
    queues: Sequence[Object] = ()


@dataclass(frozen=True)
class Condition:
    """One condition of an object. `since` is seconds since the epoch, by whoever set it."""

    type: str
    true: bool
    reason: str
    message: str
    since: float | None


def select(uid: str, known: Iterable[Object], deleted: Object | None = None) -> Objects:
    """Returns what belongs to the JobSet of this uid among objects of any kind, never by its name: another JobSet
    of the same name may have been there, whose pods still end.
    """
    by_kind: dict[str, list[Object]] = {}
    for one in known:
        by_kind.setdefault(str(one.get("kind")), []).append(one)
    jobset = next((one for one in by_kind.get("JobSet", ()) if uid_of(one) == uid), None)
    workloads = by_kind.get("Workload", ())
    workload = next((one for one in workloads if label(one, JOB_UID) == uid or uid in _owners(one)), None)
    jobs = [one for one in by_kind.get("Job", ()) if label(one, JOBSET_UID) == uid or uid in _owners(one)]
    job_uids = {uid_of(job) for job in jobs}
    pods = [one for one in by_kind.get("Pod", ()) if label(one, JOBSET_UID) == uid or _owners(one) & job_uids]
    parts = {uid, *job_uids, *(uid_of(pod) for pod in pods), *([uid_of(workload)] if workload else [])}
    events = [one for one in by_kind.get("Event", ()) if subject(one).get("uid") in parts]
    gone = deleted if deleted is not None and uid_of(deleted) == uid else None
    queues = by_kind.get("LocalQueue", ())
    return Objects(jobset, workload, jobs, pods, events, gone, workloads, queues)


def condition(one: Object | None, type_: str) -> Condition | None:
    """Returns the condition of this type; None where the object has none. Their order says nothing."""
    for raw in status(one).get("conditions") or ():
        if raw.get("type") == type_:
            return Condition(
                type_,
                raw.get("status") == "True",
                str(raw.get("reason") or ""),
                str(raw.get("message") or ""),
                seconds(raw.get("lastTransitionTime")),
            )
    return None


def is_true(one: Object | None, type_: str) -> Condition | None:
    """Returns the condition of this type if it holds."""
    found = condition(one, type_)
    return found if found is not None and found.true else None


def metadata(one: Object | None) -> Object:
    """Returns an object's metadata, empty where there is none."""
    return (one or {}).get("metadata") or {}


def spec(one: Object | None) -> Object:
    """Returns an object's spec, empty where there is none."""
    return (one or {}).get("spec") or {}


def status(one: Object | None) -> Object:
    """Returns an object's status, empty where there is none."""
    return (one or {}).get("status") or {}


def name(one: Object | None) -> str:
    """Returns an object's name."""
    return str(metadata(one).get("name") or "")


def namespace(one: Object | None) -> str:
    """Returns an object's namespace; empty for one of the whole cluster."""
    return str(metadata(one).get("namespace") or "")


def uid_of(one: Object | None) -> str:
    """Returns an object's uid."""
    return str(metadata(one).get("uid") or "")


def label(one: Object | None, key: str) -> str:
    """Returns the value of a label, empty where it is not set."""
    return str((metadata(one).get("labels") or {}).get(key) or "")


def number(value: object) -> int:
    """Returns a count as an object tells it: absent, null and what is no number are 0."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def seconds(moment: object) -> float | None:
    """Returns seconds since the epoch of a time in RFC 3339; None where there is none."""
    try:
        return datetime.datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None


def created_at(one: Object | None) -> float | None:
    """Returns when the API server took the object, in seconds since the epoch."""
    return seconds(metadata(one).get("creationTimestamp"))


def subject(event: Object) -> Object:
    """Returns what an event is about: kind, name, uid. Both of Kubernetes' APIs for events are understood."""
    return event.get("involvedObject") or event.get("regarding") or {}


def said(event: Object) -> str:
    """Returns the words of an event."""
    return str(event.get("message") or event.get("note") or "")


def happened_at(event: Object) -> float:
    """Returns when an event was seen last. Kueue and the scheduler fill one field, the other controllers another."""
    series = event.get("series") or {}
    for moment in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp") or event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
    ):
        if (at := seconds(moment)) is not None:
            return at
    return created_at(event) or 0.0


def in_order(events: Iterable[Object]) -> list[Object]:
    """Returns events in the order in which they were seen last."""
    return sorted(events, key=happened_at)


def _owners(one: Object) -> set[str]:
    return set(_owner_uids(one))


def _owner_uids(one: Object) -> Iterator[str]:
    for owner in metadata(one).get("ownerReferences") or ():
        if uid := owner.get("uid"):
            yield str(uid)
