"""Next commands of a run can be typed: with its suite, target, workload and cluster in the place of words for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tasks.stages.typed import typed

REQUEST = {"request": {"suite": "my suite.yaml", "target": "gke"}, "target": "gke"}
GKE = {"name": "r1-e1", "scope": "cluster mine#0a0a0a0a of proj in us-east5/team"}
CONTEXT = {"name": "r1-e1", "scope": "context kind-b of /k/config/default"}


@pytest.mark.parametrize(
    ("command", "ref", "told"),
    [
        ("slicebench plan SUITE --target TARGET   # why", None, "slicebench plan 'my suite.yaml' --target gke   # why"),
        (
            "slicebench cluster describe CLUSTER",
            GKE,
            "slicebench cluster describe mine --location us-east5 --project proj",
        ),
        (
            "slicebench cluster resize CLUSTER --slices N   # or",
            GKE,
            "slicebench cluster resize mine --slices N --project proj   # or",
        ),
        ("slicebench cluster describe CLUSTER", CONTEXT, None),
        ("slicebench cluster describe CLUSTER", None, "slicebench cluster describe CLUSTER"),
        (
            "slicebench workload inspect NAME",
            GKE,
            "slicebench workload inspect r1-e1 --cluster mine --location us-east5 --project proj --namespace team",
        ),
        (
            "slicebench workload list --status RUNNING",
            CONTEXT,
            "slicebench workload list --status RUNNING --context kind-b --kubeconfig /k/config",
        ),
        ("slicebench workload create … --priority CLASS", GKE, "slicebench workload create … --priority CLASS"),
    ],
)  # fmt: skip
def test_commands_are_told_as_they_are_typed(
    command: str, ref: Mapping[str, Any] | None, told: str | None
) -> None:
    assert typed([command], REQUEST, ref) == ([told] if told else [])


def test_a_request_that_cannot_be_read_leaves_them_as_they_are() -> None:
    assert typed(["slicebench plan SUITE"], {}, None) == ["slicebench plan SUITE"]
