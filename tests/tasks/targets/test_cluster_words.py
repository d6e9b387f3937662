"""The command that makes a target's cluster is taken by `cluster create` as it stands."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from flows.cli.main import main
from tasks.targets.cluster_words import create_words, resize_words
from tests.tasks.targets.kube_made import config as config_of

TPU = {"type": "v5litepod-16", "slices": 2, "context": None}
CLUSTERS: list[tuple[dict[str, Any], str]] = [
    (
        {**TPU, "cluster": {"name": "mine", "location": "us-east5-b", "create": "never", "project": "p"}},
        "mine --zone us-east5-b --zonal --type v5litepod-16 --slices 2 --project p",
    ),
    (
        {
            **TPU,
            "cluster": {
                "name": "mine", "location": "us-east5", "zone": "us-east5-b", "capacity": "spot",
                "make": {"private": True, "dns_access": False, "network": "net", },
            },
        },
        "mine --zone us-east5-b --type v5litepod-16 --slices 2 --capacity spot --network net "
        "--private --no-dns-access",
    ),
    (
        {"context": None, "type": "l4-1", "nodes": 2, "slices": 1, "cluster": {"name": "g", "location": "us-east5-b"}},
        "g --zone us-east5-b --zonal --type l4-1 --nodes 2",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("target", "told"), CLUSTERS)
def test_it_says_all_that_the_target_says(target: dict[str, Any], told: str) -> None:
    assert create_words(config_of(**target)) == f"slicebench cluster create {told}"


@pytest.mark.parametrize(("target", "told"), CLUSTERS)
def test_cluster_create_takes_it(target: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr("flows.cli.cluster.office", lambda project: None)
    monkeypatch.setattr("tasks.stages.cluster_whose.refuse_to_change", lambda desk, name: None)
    monkeypatch.setattr("tasks.stages.cluster_paid.paid_as_there", lambda desk, name, config: config)
    monkeypatch.setattr(
        "tasks.stages.clusters.preview", lambda desk, name, config: made.append(config) or "plan"
    )
    assert main([*shlex.split(create_words(config_of(**target)))[1:], "--dry-run"]) == 0 and len(made) == 1


def test_a_cluster_with_networks_of_its_own_is_made_by_hand() -> None:
    place = {"name": "g", "location": "us-east4", "create": "never"}
    networks = [f"vpc{number}" for number in range(8)]
    config = config_of(
        context=None, cluster=place, type="h100-mega-80gb-8", nodes=2, slices=1, gpu_networks=networks
    )
    assert create_words(config) == "" and resize_words(config, "g") == "slicebench cluster resize g --nodes 2"
