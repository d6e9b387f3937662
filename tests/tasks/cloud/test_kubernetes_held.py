"""A JobSet that somebody deleted and a finalizer keeps is not waited for without end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tasks.cloud.kubernetes_held import Going, Held
from tasks.cloud.kubernetes_kinds import JOB, JOB_SET, POD, Kind

KEEP, OWN = "example.com/keep", "foregroundDeletion"


def jobset(*finalizers: str, deleted: bool = True, limit: int | None = 60) -> Mapping[str, Any]:
    meta = {"uid": "j", "finalizers": list(finalizers), **({"deletionTimestamp": "now"} if deleted else {})}
    job = {"template": {"spec": {"activeDeadlineSeconds": limit} if limit else {}}}
    return {"metadata": meta, "spec": {"replicatedJobs": [job]}}


def pod(phase: str = "Running") -> Mapping[str, Any]:
    return {"metadata": {"uid": "p"}, "status": {"phase": phase}}


Changes = Sequence[tuple[Kind, str, Mapping[str, Any]]]
RUNS: Changes = [(POD, "ADDED", pod())]


def held(changes: Changes) -> Held | None:
    """Returns what is told after these changes; None: it is waited for."""

    async def main() -> Held | None:
        going = Going(0.01)
        for kind, type_, one in changes:
            going.take(kind, type_, one)
        try:
            return await asyncio.wait_for(going.held(), 0.1)
        except TimeoutError:
            return None

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "pods"),
    [
        ([*RUNS, (JOB_SET, "MODIFIED", jobset(KEEP))], 1),
        ([*RUNS, (JOB_SET, "MODIFIED", jobset(KEEP)), (POD, "DELETED", pod())], 0),
        ([*RUNS, (JOB_SET, "MODIFIED", jobset(KEEP)), (POD, "MODIFIED", pod("Failed"))], 0),
        ([*RUNS, (JOB_SET, "MODIFIED", jobset(OWN)), (POD, "DELETED", pod())], 0),
        ([*RUNS, (JOB_SET, "MODIFIED", jobset(OWN))], None),
        ([(JOB_SET, "MODIFIED", jobset(KEEP, deleted=False))], None),
        ([(JOB_SET, "MODIFIED", jobset())], None),
        ([(JOB_SET, "MODIFIED", jobset(KEEP)), (JOB_SET, "DELETED", jobset(KEEP))], None),
        ([(JOB_SET, "MODIFIED", jobset(KEEP)), (JOB_SET, "MODIFIED", jobset())], None),
        ([*RUNS, (JOB, "ADDED", {"metadata": {"uid": "x"}})], None),
    ],
)
def test_what_a_finalizer_keeps_is_not_waited_for(changes: Changes, pods: int | None) -> None:
    told = held(changes)
    assert (told.pods if told else None) == pods


def test_the_finalizer_and_the_deadlines_are_named() -> None:
    assert str(Held((KEEP,), 30.0, 2, 60)) == (
        "it is being deleted, and the finalizer example.com/keep keeps its JobSet: not waited for any more after 30 s; "
        "2 of its pods run on until whoever set that takes it away, or its deadline of 60 s is over"
    )
    assert str(Held((KEEP, OWN), 30.0)).endswith("after 30 s; whoever set that has to take it away")
    told = held([*RUNS, (JOB_SET, "MODIFIED", jobset(KEEP, limit=None))])
    assert told is not None and told.deadline_s is None
