"""The model of a cluster that is to be: what it takes, and what it refuses with which words."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from tasks.config.cluster import ClusterConfig


def config(**fields: Any) -> ClusterConfig:
    return ClusterConfig.model_validate({"zone": "us-east5-b", "type": "v5litepod-16", **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "v5litepod-7"}, "did you mean"),
        ({"topology": "2x2x2"}, "does not fit v5litepod-16"),
        ({"capacity": "spot", "reservations": ["r"]}, "capacity: spot and reservations: do not go together"),
        ({"capacity": "reservation"}, "names no reservation"),
        ({"capacity": "flex_start", "max_run": "8d"}, "7d at most"),
        ({"capacity": "cheap"}, "'spot', 'on_demand', 'reservation' or 'flex_start'"),
        ({"type": "v4-16", "capacity": "flex_start"}, "v4-16 is not given as flex_start"),
        ({"type": "h100-80gb-8", "nodes": 2}, "GPUDirect-TCPX, for which GKE makes no networks"),
        (
            {"type": "h100-mega-80gb-8", "nodes": 2},
            "GPUDirect-TCPXO.*Cluster Toolkit.*gpu_networks: none for TCP",
        ),
        ({"type": "gb200-4"}, "one NVLink domain"),
        (
            {"type": "cpu"},
            "names no machine type: a cluster that is made needs one, such as n2-standard-32-1",
        ),
        ({"private_endpoint": True}, "needs private: true"),
        ({"authorized_networks": "10.0.0.300/8"}, "is no network such as"),
        ({"autoprovision": 16}, "takes the place of slices"),
        ({"zone": "us-east5"}, "zone"),
        ({"global_access": True}, "global_access needs private: true"),
        ({"pods_range": "10.0.0.1/8"}, "is no range such as"),
        ({"maintenance": "3am"}, "maintenance"),
        (
            {"type": "tpu7x-18432", "slices": 9, "placement_policy": "p"},
            "20736 machines are more than the 15000",
        ),
        ({"slices": -1}, "slices"),
        ({"spot": True}, "Extra inputs"),
        ({"cpu_pool": {"nodes": 5, "most": 3}}, "most is less than nodes"),
    ],
)
def test_it_refuses_what_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=words):
        config(**fields)


@pytest.mark.parametrize(
    ("fields", "machines", "location"),
    [
        ({}, 4, "us-east5"),
        ({"slices": 3}, 12, "us-east5"),
        ({"regional": False, "slices": 0}, 0, "us-east5-b"),
        ({"type": "v6e-8"}, 2, "us-east5"),
        ({"type": "ct6e-standard-8t"}, 1, "us-east5"),
        ({"type": "l4-1", "nodes": 5}, 5, "us-east5"),
        ({"type": "n2-standard-32-2"}, 2, "us-east5"),
        ({"type": None}, 0, "us-east5"),
        ({"type": "tpu7x-16", "placement_policy": "mine"}, 2, "us-east5"),
    ],
)
def test_it_counts_machines(fields: dict[str, Any], machines: int, location: str) -> None:
    assert (config(**fields).machines, config(**fields).location) == (machines, location)


def test_a_reservation_that_is_named_is_how_it_is_paid_for() -> None:
    assert config(reservations="projects/p/reservations/r").capacity == "reservation"
    assert config().capacity == "on_demand"


def test_what_is_allowed_and_may_not_be_meant() -> None:
    assert config().warnings() == []
    assert "multislice needs slices of several hosts" in str(config(type="v6e-4", slices=2).warnings()[0])
    assert "nobody outside" in str(config(private=True, private_endpoint=True).warnings()[0])
    assert config(private=True).warnings() == [], "it answers at its DNS name"
    assert "--nodes is for GPUs" in str(config(nodes=2).warnings()[0])
