"""What is explained of a workload that its time limit ended, in the objects that Kueue and JobSet left of one."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.targets.kube_found import KubeState
from tasks.targets.kube_objects import select
from tasks.targets.kube_states import is_last, look

OFF = "DeactivatedDueToMaximumExecutionTimeExceeded"
UID = "jobset.sigs.k8s.io/jobset-uid"


def condition(type_: str, reason: str, message: str) -> dict[str, str]:
    return {"type": type_, "status": "True", "reason": reason, "message": message}


def one(kind: str, conditions: list[dict[str, str]], spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    labels = {} if kind == "JobSet" else {"kueue.x-k8s.io/job-uid" if kind == "Workload" else UID: "u"}
    meta = {"uid": "u" if kind == "JobSet" else kind, "name": kind.lower(), "labels": labels}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": {"conditions": conditions, **status}}


WORKLOAD = one(
    "Workload", [condition("Evicted", OFF, "exceeding the maximum execution time")], {"active": False}
)
LATE = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
FAILED = condition("Failed", "FailJobSetFailurePolicyAction", "applying FailJobSet (first failed job: job)")


@pytest.mark.parametrize(
    ("jobset", "job", "seen"),
    [
        ([], [], "exceeding the maximum execution time"),
        ([FAILED], [LATE], "Job job: DeadlineExceeded: Job was active longer than specified deadline"),
    ],
)
def test_a_time_limit_is_told_by_whom_it_was_kept(
    jobset: list[dict[str, str]], job: list[dict[str, str]], seen: str
) -> None:
    there = [
        one("JobSet", jobset, {"suspend": True, "replicatedJobs": []}, restarts=0),
        WORKLOAD,
        one("Job", job, {"suspend": True}),
    ]
    objects = select("u", there)
    found = look(objects)
    assert found.state == KubeState.FAILED
    [trouble] = kube_troubles(KubeScene("jobset", objects, found, 0.0))
    assert trouble.name == "deadline"
    assert seen in trouble.evidence[0].text


@pytest.mark.parametrize(
    ("object_", "change", "last"),
    [
        (one("JobSet", [], {"suspend": True}), "MODIFIED", False),
        (one("JobSet", [], {}, terminalState="Failed"), "MODIFIED", True),
        (one("JobSet", [], {}), "DELETED", True),
        (one("Workload", [], {"active": False}), "MODIFIED", False),
        (WORKLOAD, "ADDED", True),
        ({**WORKLOAD, "spec": {}}, "ADDED", False),
        (one("Job", [LATE], {}), "MODIFIED", False),
    ],
)
def test_what_only_kueue_has_ended_is_followed_no_longer(
    object_: dict[str, Any], change: str, last: bool
) -> None:
    assert is_last(object_["kind"], change, object_) == last
