"""The deployments environment/up and environment/down on a real Prefect server, against the stand-in for Google."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import LEAST
from tests.system.prefect_station import Station, wait_for

pytestmark = pytest.mark.system


def played(station: Station, deployment: str, **parameters: Any) -> tuple[str, str]:
    """Starts a deployment and waits for its end; returns the state's type, and what it says."""
    found = station.read(f"deployments/name/environment/{deployment}")
    made = station.call(f"deployments/{found['id']}/create_flow_run", {"parameters": parameters})

    def ended() -> Any:
        state = station.read(f"flow_runs/{made['id']}")["state"]
        return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    state = wait_for(ended)
    return state["type"], state["message"]


def test_an_environment_is_made_and_given_back_unattended(project: Gke, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{LEAST}queueing: {{install: false}}\n")
    before = project.project_inventory()
    station = Station(home)
    try:
        elsewhere = ["tpu={machine_type: ct5p-hightpu-4t, topology: 2x2x2}"]
        refused, why = played(station, "up", file=str(file), set=elsewhere)
        assert refused == "FAILED" and why.startswith("BAD_INPUT: ") and "us-east5-a" in why, why
        assert project.mutations() == []
        state, says = played(station, "up", file=str(file))
        assert (state, says) == ("COMPLETED", f"environment mine is as {file} says")
        assert sorted(project.pools("mine")) == ["cpu", "tpu-node-pool-0"]
        state, says = played(station, "down", file=str(file), bucket=True)
        assert state == "COMPLETED" and says.startswith("environment mine is gone: "), says
    finally:
        station.close()
    assert project.inventory() == []
    after = project.project_inventory()
    assert after.pop("buckets") == ["records"], "where the record is stays"
    assert after == before
