"""When a JobSet starts again and when it has failed: preemptions never count, the program's own failures when asked.

A pod that is taken away has the condition DisruptionTarget, and its Job fails for it at once: one that is missing
keeps all others waiting. JobSet tells such a Job from one whose program failed by the message alone, which Kubernetes
writes as `Pod NS/NAME has condition DisruptionTarget matching FailJob rule at index 0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.targets.kube_submission import Object, given

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

_BY_THE_SYSTEM = (42, *range(127, 256))
"""Exit codes that are no verdict of the program: it was not found, or was ended by a signal; 42 asks for a restart."""


def restarting_codes(config: GkeTargetConfig) -> frozenset[int] | None:
    """Returns the exit codes after which a workload is started again, as often as `max_restarts`; None: after any."""
    if config.restart_on_user_code_failure:
        return None
    return frozenset({*_BY_THE_SYSTEM, *config.restart_exit_codes})


def pod_failure_policy(config: GkeTargetConfig, containers: Sequence[str]) -> Object:
    """Returns what makes a Job fail at once, by reason PodFailurePolicy: a disruption, or exit codes that are final."""
    rules: list[Object] = [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    codes = restarting_codes(config)
    if codes is not None:
        values = sorted(codes)
        rules += [
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": name, "operator": "NotIn", "values": values},
            }
            for name in containers
        ]
    return {"rules": rules}


def failure_policy(config: GkeTargetConfig, *, deadline: bool, once: bool) -> Object:
    """Returns what a failed Job means for the JobSet: the first rule that fits; none: a restart that counts. One that
    begins `once` fails of whatever fails.
    """
    if once:
        return {"maxRestarts": 0}
    rules: list[Object] = [
        {
            "name": "preempted",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [".*has condition DisruptionTarget matching FailJob rule.*"],
        }
    ]
    if deadline:
        rules.append(
            {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
        )
    if not config.restart_on_user_code_failure:
        rules.append(
            {"name": "userCodeFailed", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
        )
    return given(rules=rules) | {"maxRestarts": config.max_restarts}
