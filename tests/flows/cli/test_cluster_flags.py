"""Flags of `cluster create`: what is wrong, contradicts or would have no effect is told in the flags' own spelling."""

from __future__ import annotations

from typing import Any

import pytest

from flows.cli.cluster_flags import config_of
from flows.cli.cluster_groups import GROUPS
from runtime.contract.errors import BadInput
from tasks.config.cluster import ClusterConfig

TYPE = {"type": "v5litepod-16"}
GPU = {"type": "l4-1"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"zone": "nowhere"}, "--zone must be a zone, such as us-east5-b, not nowhere"),
        ({"maintenance": "25:00"}, "--maintenance must be a time of the day, such as 03:00, not 25:00"),
        (
            {"queueing": {"install": True, "memory_limit": "800Gb"}},
            "--memory-limit must be an amount of memory",
        ),
        ({"queueing": {"install": True, "cpu_limit": 0}}, "--cpu-limit must be at least 1, not 0"),
        (
            {"queueing": {"install": True, "jobset": {"version": "v9"}}},
            "--jobset-version must be a release, such as v0.12.0, not v9",
        ),
        ({**TYPE, "slices": -1}, "--slices must be at least 0, not -1"),
        ({"cpu_pool": {"disk_gb": "x"}}, "--cpu-disk must be GB or GB:TYPE, of at least 10 GB"),
        ({"cpu_pool": {"nodes": 0}}, "--cpu-nodes must be at least 1, not 0"),
        ({**TYPE, "topology": ""}, "--topology is empty"),
        ({"authorized_networks": ("here",)}, "--authorized-network: 'here' is no network such as"),
        ({"slices": 3}, "--slices says how accelerators are, and there are none, add their type"),
        ({"capacity": "spot", "max_run": "3h"}, "--capacity, --max-run say how accelerators are"),
        ({"pool_fields": ("config.spot=true",)}, "--pool-field says how accelerators are"),
        ({**TYPE, "nodes": 3}, "a slice of v5litepod-16 has 4 by itself, use --slices N"),
        ({**GPU, "nodes": 3, "slices": 3}, "--nodes and --slices both say how many machines"),
        ({**TYPE, "gpu_networks": "none"}, "--gpu-networks is for GPUs"),
        ({**GPU, "placement_policy": "p"}, "l4-1 needs none"),
        ({**TYPE, "autoprovision": 8}, "--autoprovision takes the place of slices, add --slices 0"),
        ({**TYPE, "capacity": "reservation"}, "names no reservation, add --reservation NAME"),
        ({**TYPE, "capacity": "spot", "reservations": ("r",)}, "--reservation do not go together"),
        ({"global_access": True}, "--global-access is for a private cluster, add --private"),
        ({"private_endpoint": True}, "--private-endpoint is for a private cluster, add --private"),
        (
            {"queueing": {"install": False, "cpu_limit": 4, "kueue": {"version": "v0.19.2"}}},
            "--cpu-limit, --kueue-version: of JobSet, Kueue and the queue, which --no-install leaves out",
        ),
        ({**TYPE, "capacity": "flex_start", "max_run": "8d"}, "7d at most: shorten --max-run"),
        ({"type": "h100-80gb-8", "nodes": 2}, "or say --gpu-networks none for TCP"),
    ],
)
def test_it_is_refused_in_the_words_of_the_command_line(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as refused:
        config_of(**{"zone": "us-east5-b", **fields})
    assert told in str(refused.value)


def test_every_group_of_flags_asks_for_fields_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEBENCH_ZONE", "us-east5-b")
    asked = [name for group in GROUPS for name in group().asked()]
    assert len(asked) == len({*asked})
    assert {*asked} <= ClusterConfig.model_fields.keys()


@pytest.mark.parametrize(
    "fields",
    [
        {"slices": 0},
        {**TYPE, "slices": 0, "autoprovision": 8},
        {**TYPE, "reservations": ("r",)},
        {"type": "h200-141gb-8", "nodes": 2, "gpu_networks": "none"},
        {"queueing": {"install": False, "cpu_limit": None}},
        {"network": "projects/p/global/networks/n", "service_account": "a@p.iam.gserviceaccount.com"},
        {"cluster_fields": ("addons_config.lustre_csi_driver_config.enabled=true",)},
    ],
)
def test_what_has_an_effect_is_taken(fields: dict[str, Any]) -> None:
    assert config_of(**{"zone": "us-east5-b", **fields}).zone == "us-east5-b"
