"""Why an attempt of a JobSet failed: the Job and the pod that did so first. The JobSet itself names a Job at most."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tasks.targets.kube_objects import Condition, Object, is_true, name
from tasks.targets.kube_pods import (
    End,
    asked_to_go,
    attempt_of,
    disruption,
    failures,
    has_ended,
    is_being_deleted,
    job_of,
)

Kind = Literal["exit", "out_of_memory", "preempted", "evicted", "deleted", "deadline", "job"]
"""`exit`: the program ended with an error. `preempted`: its hardware was taken away. `evicted`: its node ran short of
something that it took. `deleted`: somebody deleted a pod. `job`: nothing is known but what the Job says."""

_NAMED_IN_POLICY = re.compile(r"Container (\S+) for pod (?:\S+/)?(\S+) failed with exit code (\d+)")
"""What a Job says whose podFailurePolicy matched; it stays when the pod is gone."""

TAKEN = "has condition DisruptionTarget"
"""What a Job says that failed because a pod was taken away, whatever became of the pod since."""

_STOPPED = 130
"""With this our own supervisors end that were told to: by their pod's deletion, or by one of the others."""

_BY_SIGNAL = (_STOPPED, 137, 143)


@dataclass(frozen=True)
class Cause:
    """The first thing that went wrong in one attempt. `at` is seconds since the epoch; exit_code None: not known."""

    kind: Kind
    attempt: int
    pod: str = ""
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    job: str = ""
    job_reason: str = ""
    job_message: str = ""
    at: float | None = None

    @property
    def of_hardware(self) -> bool:
        """Whether something was taken away from it, and it did nothing wrong."""
        return self.kind in ("preempted", "evicted") or TAKEN in self.job_message

    def __str__(self) -> str:
        told = [self._of_pod()] if self.pod else []
        if self.job_reason:
            message = f": {self.job_message}" if self.job_message else ""
            told.append(f"Job {self.job}: {self.job_reason}{message}")
        return "; ".join(told)

    def _of_pod(self) -> str:
        code = f" (exit code {self.exit_code})" if self.exit_code is not None else ""
        message = f": {self.message.strip()}" if self.message.strip() else ""
        container = f"container {self.container} " if self.container else "it "
        match self.kind:
            case "preempted" | "evicted":
                how = f"was taken away ({self.reason}){code}"
            case "deleted":
                how = f"was deleted while it ran{code}"
            case "out_of_memory":
                how = f"{container}was killed for want of memory ({self.reason}){code}"
            case _ if self.exit_code is None:
                how = f"failed ({self.reason})"
            case _:
                reason = f" ({self.reason})" if self.reason not in ("", "Error") else ""
                how = f"{container}exited with {self.exit_code}{reason}"
        joint = " " if self.kind in ("preempted", "evicted", "deleted") or self.exit_code is None else ": "
        return f"pod {self.pod}{joint}{how}{message}"


def first_cause(
    jobs: Iterable[Object], pods: Iterable[Object], attempt: int, known: Cause | None = None
) -> Cause | None:
    """Returns the first cause in an attempt, as far as it can be seen now or was `known` from an earlier look: pods of
    a failed Job are deleted, and all of them before a restart.
    """
    failed = {
        name(job): why for job in jobs if attempt_of(job) == attempt and (why := failure_of(job)) is not None
    }
    first_failed_at = min((why.since for why in failed.values() if why.since is not None), default=None)
    found = [
        cause
        for cause in (*_of_pods(pods, attempt, failed), *_of_jobs(failed, attempt))
        if not _is_sibling(cause, first_failed_at)
    ]
    found.sort(key=lambda cause: cause.pod)
    if known is not None and not any(_knows_more(one, known) for one in found):
        found.insert(0, _with_job(known, failed))  # of two in the same second the one that was seen first
    return min(found, key=_rank, default=None)


def _of_pods(pods: Iterable[Object], attempt: int, failed: dict[str, Condition]) -> Iterator[Cause]:
    for pod in pods:
        if attempt_of(pod) != attempt:
            continue
        taken = disruption(pod)
        end = next(iter(failures(pod)), None)
        if taken is None and end is None:
            if is_being_deleted(pod) and not has_ended(pod):  # it may be gone before its end is seen
                going = Cause("deleted", attempt, name(pod), job=job_of(pod), at=asked_to_go(pod))
                yield _with_job(going, failed)
            continue
        end = end or End(
            name(pod), "", None, taken.reason if taken else "", "", taken.since if taken else None
        )
        kind = _kind(pod, end, taken)
        reason = taken.reason if taken is not None and kind == "preempted" else end.reason
        message = end.message or (taken.message if taken is not None and kind == "preempted" else "")
        job = job_of(pod)
        at = asked_to_go(pod) or end.at if kind == "deleted" else end.at
        cause = Cause(kind, attempt, end.pod, end.container, end.exit_code, reason, message, job, at=at)
        yield _with_job(cause, failed)


def _knows_more(cause: Cause, known: Cause) -> bool:
    """Says whether a cause is the known one, whose end had not been seen by then."""
    same = (cause.pod, cause.kind) == (known.pod, known.kind)
    return same and known.exit_code is None and cause.exit_code is not None


def _is_sibling(cause: Cause, first_failed_at: float | None) -> bool:
    """Says whether a pod was only deleted because a Job had failed."""
    if cause.kind != "deleted" or cause.at is None or first_failed_at is None:
        return False
    return cause.at > first_failed_at


def _kind(pod: Object, end: End, taken: Condition | None) -> Kind:
    if (pod.get("status") or {}).get("reason") == "Evicted":
        return "evicted"
    if taken is not None:
        return "preempted"
    if end.reason == "OOMKilled":
        return "out_of_memory"
    if is_being_deleted(pod) and end.exit_code in _BY_SIGNAL:
        return "deleted"
    return "exit"


def _of_jobs(failed: dict[str, Condition], attempt: int) -> Iterator[Cause]:
    for job, why in failed.items():
        if named := _NAMED_IN_POLICY.search(why.message):
            container, pod, code = named.groups()
            cause = Cause("exit", attempt, pod, container, int(code), job=job, at=why.since)
        else:
            deadline = why.reason == "DeadlineExceeded"
            cause = Cause("deadline" if deadline else "job", attempt, job=job, at=why.since)
        yield _with_job(cause, failed)


def _with_job(cause: Cause, failed: dict[str, Condition]) -> Cause:
    why = failed.get(cause.job)
    if why is None or cause.job_reason:
        return cause
    return Cause(**{**cause.__dict__, "job_reason": why.reason, "job_message": why.message})


def failure_of(job: Object) -> Condition | None:
    """Returns why a Job fails; it says so first with FailureTarget, and with Failed when all its pods are gone."""
    return is_true(job, "FailureTarget") or is_true(job, "Failed")


def _rank(cause: Cause) -> tuple[int, float, int]:
    """Orders causes: hardware that was taken away brings the others down before the API server knows of it; a Job
    whose pods all are gone tells the least. A sibling of a failed pod is deleted after it, in the same second at worst.
    """
    weight = {"preempted": 0, "evicted": 0, "job": 3}.get(cause.kind, 1)
    if cause.kind == "exit" and cause.exit_code == _STOPPED:
        weight = 2  # it ended because another did
    nth = {"deleted": 1}.get(cause.kind, 0)
    return weight, cause.at if cause.at is not None else float("inf"), nth
