"""What keeps an object that was asked to go is told: whose finalizer, or which node a pod still ends on."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.kubernetes_going import why_still

TRACKED = "batch.kubernetes.io/job-tracking"


def one(
    kind: str, phase: str = "", finalizers: tuple[str, ...] = (), *, going: bool = True
) -> dict[str, Any]:
    asked = {"deletionTimestamp": "2026-11-29T16:00:00Z"} if going else {}
    made: dict[str, Any] = {"kind": kind, "metadata": {"name": "n", "finalizers": list(finalizers), **asked}}
    return {**made, "spec": {"nodeName": "node-1"}, "status": {"phase": phase}} if kind == "Pod" else made


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ([one("Pod", "Running", (TRACKED,))], "ends within its grace, or when its node node-1 answers again"),
        (
            [one("Pod", "Failed", (TRACKED,))],
            f"keeps its finalizer {TRACKED}, which Kubernetes cannot take off",
        ),
        ([one("Pod", "Failed", (TRACKED, "a.com/b"))], "Pod n is held by the finalizer a.com/b"),
        ([one("JobSet", "", ("a.com/b", "foregroundDeletion"))], "JobSet n is held by the finalizer a.com/b"),
        ([one("JobSet", "", ("foregroundDeletion",))], ""),
        ([one("Pod", "Running", ("a.com/b",), going=False)], ""),
        ([one("Pod", "Running"), one("JobSet", "", ("a.com/b",))], "JobSet n is held by"),
        ([one("Pod", "Running", going=False), one("JobSet", "", ("a.com/b",))], "JobSet n is held by"),
        ([], ""),
    ],
)
def test_it_names_what_keeps_the_first_that_says_so(left: list[dict[str, Any]], why: str) -> None:
    told = why_still(left)
    assert why in told and bool(why) == bool(told)
