"""What a command that waited for a workload ends with."""

from __future__ import annotations

import pytest

from tasks.stages.workload_follow import exit_code
from tasks.targets.kube_cause import Cause
from tasks.targets.kube_found import Found, KubeState


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (Found(KubeState.SUCCEEDED), 0),
        (Found(KubeState.FAILED, causes={0: Cause("exit", 0, "p", "worker", 5)}), 5),
        (Found(KubeState.FAILED, causes={0: Cause("deadline", 0, job="j")}), 1),
        (Found(KubeState.FAILED, "Deleted"), 3),
        (Found(KubeState.GONE), 3),
    ],
)
def test_a_program_that_did_not_fail_is_not_said_to_have(found: Found, code: int) -> None:
    assert exit_code(found) == code
