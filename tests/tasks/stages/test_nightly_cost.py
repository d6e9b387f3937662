"""What runs cost: by the zone and the capacity that they really had, and no more than a budget can take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.config.gke_target import GkeTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.resource import ResourceRef
from tasks.stages.nightly_cost import Cost, Price, cost_of, price_of
from tasks.stages.nightly_record import CellEnd, NightRecord
from tasks.stages.nightly_report import page_of
from tasks.stages.nightly_run import RunEnd
from tasks.stages.used import Used, used_of, with_before

SPOT = TpuVmTargetConfig(
    kind="tpu_vm", project="p", zones=("us-east5-b", "us-central1-b"), type="v6e-16", tier="spot"
)
CLUSTER = GkeTargetConfig.model_validate(
    {
        "kind": "gke",
        "type": "v6e-16",
        "cluster": {"name": "c", "project": "p", "location": "us-east5-b", "capacity": "on_demand"},
    }
)


def _made(*refs: ResourceRef, **shared: Any) -> Any:
    """A lease with these, in a ledger with those that it shares."""
    return SimpleNamespace(lease=SimpleNamespace(resources=refs), ledger=SimpleNamespace(read=shared.get))


def _node(zone: str, *, ours: bool = True) -> ResourceRef:
    return ResourceRef("tpu_node", f"p/{zone}", "n", ours=ours)


def _lease(run_id: str | None, stands: bool = False) -> Any:
    return SimpleNamespace(run_id=run_id, stands=stands)


SHARE = ResourceRef("share", "ledger", "other", "x")


@pytest.mark.parametrize(
    ("config", "lease", "words", "price"),
    [
        (SPOT, _made(_node("us-east5-b")), "spot in us-east5-b", 16 * 1.215),
        (SPOT, _made(_node("us-central1-b")), "spot in us-central1-b", 8.7),
        (SPOT, _made(_node("us-east5-b", ours=False)), "", 0.0),
        (CLUSTER, _made(ResourceRef("gke_node_pool", "p/us-east5-b/c", "n")), "on demand in us-east5-b", 9.0),
        (CLUSTER, _made(SHARE, other=_lease("a-run")), "on demand in us-east5-b", 9.0),
        (CLUSTER, _made(SHARE, other=_lease(None)), "", 0.0),
        (CLUSTER, _made(SHARE, other=_lease("a-run", stands=True)), "", 0.0),
        (CLUSTER, _made(), "", 0.0),
        (LocalTargetConfig(kind="local"), _made(), "", 9.0),
    ],
)
def test_what_was_made_is_what_costs(config: TargetConfig, lease: Any, words: str, price: object) -> None:
    used = used_of(config, lease, 9.0, 1.0)
    assert (used.words, used.price_per_hour) == (words, price)


def _ended(folder: Path, used: list[dict[str, Any]] | None) -> RunEnd:
    """A run whose hardware was there from second 3600 to 4 * 3600."""
    stages = folder / "run" / "stages"
    stages.mkdir(parents=True)
    (stages / "build.json").write_text(json.dumps({"finished_at": 3600.0}))
    (stages / "teardown.json").write_text(json.dumps({"finished_at": 4 * 3600.0}))
    if used is not None:
        outputs = {"used": used, "workers": {}}
        (stages / "provision.json").write_text(json.dumps({"finished_at": 1.0, "outputs": outputs}))
    return RunEnd("run", str(folder / "run"), "t", "passed", 0, began_at=100.0, ended_at=5 * 3600.0)


EAST = {"since": 3600.0, "zone": "us-east5-b", "capacity": "spot", "price_per_hour": 10.0}
WEST = {"since": 2 * 3600.0, "zone": "us-central1-b", "capacity": "spot", "price_per_hour": 20.0}


@pytest.mark.parametrize(
    ("used", "dollars", "words"),
    [
        (None, 300.0, ()),
        ([EAST], 30.0, ("spot in us-east5-b",)),
        ([EAST, WEST], 50.0, ("spot in us-east5-b", "spot in us-central1-b")),
        (
            [{**EAST, "since": 1.0}, {**WEST, "since": 1800.0}],
            60.0,
            ("spot in us-east5-b", "spot in us-central1-b"),
        ),
        ([{**EAST, "price_per_hour": None}], None, ("spot in us-east5-b",)),
        ([{"since": 1.0}], 0.0, ()),
        (["damaged"], 300.0, ()),
    ],
)
def test_a_run_costs_what_it_had_else_what_was_planned(
    tmp_path: Path, used: Any, dollars: float | None, words: tuple[str, ...]
) -> None:
    assert cost_of(_ended(tmp_path, used), Price(16, 100.0)) == Cost(48.0, dollars, words)


def test_hardware_that_came_after_other_is_written_down_beside_it() -> None:
    east, west = (Used(**one) for one in (EAST, WEST))
    first = with_before(None, east)
    assert with_before({"outputs": {"used": first}}, replace(east, since=5000.0)) == first
    assert with_before({"outputs": {"used": first}}, west) == [EAST, WEST]
    assert with_before({"outputs": {}}, west) == [WEST]  # of an earlier slicebench


def test_the_budget_counts_on_the_dearest_zone() -> None:
    cheap = price_of(SPOT, 1.0)
    assert cheap.per_hour == 1.0 and cheap.most_per_hour is not None
    assert cheap.at_most(2.0) == 2.0 * cheap.most_per_hour > 2.0
    assert price_of(SPOT.model_copy(update={"existing": "n"}), 0.0).at_most(2.0) == 0.0
    assert Price(16, None).at_most(2.0) is None


def test_the_report_says_by_which_price() -> None:
    cell = CellEnd("a · b · c", "a", "b", "c", "b", "passed", cost=Cost(48.0, 50.0, ("spot in us-east5-b",)))
    page = page_of(NightRecord("n", "2026-11-29", 1.0, cells=[cell], prices_as_of="2026-11"), "/runs/n")
    assert page["cost"].endswith(
        "until it was given back, by the price of where it was and how it was paid for."
    )
    assert ("$50.00", "spot in us-east5-b") in page["cells"][0].cells
