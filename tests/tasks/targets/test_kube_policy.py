"""What Kubernetes and JobSet make of the ends of our pods: what fails, what starts again, and what counts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_jobset import jobset
from tests.tasks.targets.kube_made import (
    config,
    job_of,
    made,
    submission,
)


def ends(
    target: GkeTargetConfig,
    *,
    exit_code: int = 0,
    condition: str = "",
    deadline: bool = False,
    once: bool = False,
) -> str:
    """Returns what a pod's end does to the JobSet, by the documented order of rules."""
    spec = jobset(target, submission(deadline_s=60 if deadline else None, once=once))["spec"]
    template = spec["replicatedJobs"][0]["template"]["spec"]
    reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if deadline:
        reason, message = "DeadlineExceeded", "Job was active longer than specified deadline"
    for index, rule in enumerate(() if deadline else template["podFailurePolicy"]["rules"]):
        if condition and condition in [each["type"] for each in rule.get("onPodConditions", [])]:
            reason = "PodFailurePolicy"
            message = f"Pod ns/p has condition {condition} matching FailJob rule at index {index}"
            break
        codes = rule.get("onExitCodes")
        if codes and exit_code and exit_code not in codes["values"]:
            reason = "PodFailurePolicy"
            message = f"Container worker for pod ns/p failed with exit code {exit_code} matching FailJob rule"
            break
    for rule in spec["failurePolicy"].get("rules", []):
        patterns = rule.get("onJobFailureMessagePatterns", [""])
        if reason in rule["onJobFailureReasons"] and any(re.search(each, message) for each in patterns):
            return {"FailJobSet": "fails", "RestartJobSetAndIgnoreMaxRestarts": "restarts free"}[
                rule["action"]
            ]
    return "restarts" if spec["failurePolicy"]["maxRestarts"] else "fails"


@pytest.mark.parametrize(
    ("fields", "end", "what"),
    [
        ({}, {"exit_code": 1}, "fails"),
        ({}, {"exit_code": 137}, "fails"),
        ({}, {"exit_code": 143, "condition": "DisruptionTarget"}, "restarts free"),
        ({"max_restarts": 3}, {"exit_code": 1}, "fails"),
        ({"max_restarts": 3}, {"exit_code": 42}, "restarts"),
        ({"max_restarts": 3}, {"exit_code": 137}, "restarts"),
        ({"max_restarts": 3}, {"exit_code": 143, "condition": "DisruptionTarget"}, "restarts free"),
        ({"max_restarts": 3, "restart_exit_codes": "1, 3-5"}, {"exit_code": 4}, "restarts"),
        ({"max_restarts": 3, "restart_exit_codes": "1, 3-5"}, {"exit_code": 2}, "fails"),
        ({"max_restarts": 3, "restart_on_user_code_failure": True}, {"exit_code": 2}, "restarts"),
        (
            {"max_restarts": 3, "restart_on_user_code_failure": True},
            {"exit_code": 1, "condition": "DisruptionTarget"},
            "restarts free",
        ),
        ({"max_restarts": 3}, {"deadline": True}, "fails"),
        ({"max_restarts": 3, "restart_on_user_code_failure": True}, {"deadline": True}, "fails"),
    ],
)
def test_preemption_never_counts_and_failures_count_when_asked(
    fields: dict[str, Any], end: dict[str, Any], what: str
) -> None:
    assert ends(config(**fields), **end) == what
    assert ends(config(**fields), **end, once=True) == "fails"


def test_a_deadline_is_kept_by_the_cluster_itself() -> None:
    jobset = made({"limits": {"workload_s": 3600}})
    assert job_of(jobset)["activeDeadlineSeconds"] == 3600
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == "3600"
    assert job_of(made({"limits": {"workload_s": 3600}}, deadline_s=60))["activeDeadlineSeconds"] == 60
    without = made({"queue": None, "limits": {"workload_s": 3600}})
    assert "labels" not in without["metadata"]
