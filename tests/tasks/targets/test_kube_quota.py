"""Kueue's sentences about flavors, and what they come to for whoever waits."""

from __future__ import annotations

import pytest

from tasks.targets.kube_quota import verdict

BUSY = "insufficient unused quota for {} in flavor {}, 16 more needed"
NEVER = (
    "insufficient quota for {} in flavor {}, previously considered podsets requests (0) + "
    "current podset request (48) > maximum capacity (32)"
)
OTHER = "flavor {} doesn't match node affinity"
TAINT = "untolerated taint {{google.com/tpu present NoSchedule <nil>}} in flavor {}"
TPU = "google.com/tpu"


@pytest.mark.parametrize(
    ("told", "comes_to"),
    [
        ([BUSY.format(TPU, "a")], "waits"),
        ([NEVER.format(TPU, "a")], "never"),
        ([OTHER.format("a")], "no flavor"),
        ([TAINT.format("a")], "no flavor"),
        ([OTHER.format("a"), BUSY.format(TPU, "b")], "waits"),
        ([TAINT.format("a"), NEVER.format("cpu", "b")], "never"),
        ([NEVER.format(TPU, "a"), BUSY.format(TPU, "b")], "waits"),
        ([NEVER.format("cpu", "a"), BUSY.format(TPU, "a")], "never"),
        ([NEVER.format("cpu", "a"), BUSY.format(TPU, "a"), OTHER.format("b")], "never"),
        (["resource cpu unavailable in ClusterQueue"], "no flavor"),
        (["Flavor a does not support TopologyAwareScheduling"], "no flavor"),
        (["insufficient quota for google.com/tpu in flavor a in ClusterQueue"], "never"),
        ([BUSY.format(TPU, "a") + ". Pending the preemption of 1 workload(s)"], "waits"),
        (["LocalQueue q doesn't exist"], ""),
    ],
)
def test_the_best_flavor_counts_and_of_it_the_worst(told: list[str], comes_to: str) -> None:
    assert verdict("couldn't assign flavors to pod set s: " + ", ".join(told)) == comes_to
