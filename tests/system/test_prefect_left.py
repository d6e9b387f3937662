"""A run that does not wait, through a real Prefect: its flow ends, its pods go on, and another flow collects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tasks.leases.lease import State
from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.system.prefect_station import PATIENCE_S, ROOT, Station
from tests.system.suites import lay_suite

pytestmark = pytest.mark.system


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    (tmp_path / "home").mkdir()
    up = Station(tmp_path / "home")
    yield up
    up.end_commands()
    up.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesStandIn]:
    pool = {"pool": "cpu", "count": 1}
    image = {"PYTHONPATH": str(ROOT)}
    with KubernetesStandIn.started(tmp_path, image_env=image, nodes=[pool]) as started:
        yield started


def test_a_flow_leaves_its_workload_which_nobody_takes_away_and_another_collects(
    station: Station, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    target, shared = tmp_path / "there.yaml", tmp_path / "runs"
    shared.mkdir()
    there = {
        "kind": "gke", "context": "standin", "kubeconfig": str(cluster.kubeconfig), "type": "cpu", "cpu": "1",
        "image": f"registry.invalid/worker@sha256:{'0' * 64}", "queue": None, "priority": None, "smoke": False,
        "shared": {"directory": str(shared), "host_path": str(shared)},
        "wait": False, "limits": {"workload_s": 3600},
    }  # fmt: skip
    target.write_text(yaml.safe_dump(there))
    suite = lay_suite(tmp_path / "suite", "patient", go=str(tmp_path / "go"))

    def through_prefect(*words: str) -> str:
        command = station.command("run", *words, "--output", str(shared))
        told, _ = command.communicate(timeout=PATIENCE_S)
        assert command.returncode == 0, told
        return told

    told = through_prefect(str(suite), "--target", str(target), "--run-id", "left")
    print(told)
    assert "flow run patient on there: http" in told
    assert "slicebench run --resume left" in told
    assert station.state("left") == "Completed"
    assert "goes on by itself" in station.flow_run("left")["state"]["message"]
    told, _ = (command := station.command("reap")).communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, told
    print(told)
    assert [lease.state for lease in station.leases("left")] == [State.LIVE]
    assert Plain(cluster.url).names(JOBSETS) == ["sb-left-e1"]

    (tmp_path / "go").touch()
    told = through_prefect("--resume", "left")
    print(told)
    assert station.state("left") == "Completed"
    outcome = json.loads((shared / "left" / "outcome.json").read_text())
    assert (outcome["exit_code"], outcome["verdict"]) == (0, "NO_BASELINE")
    assert [lease.state for lease in station.leases("left")] == [State.GONE]
    cluster.assert_nothing_left(but=("nodes", "namespaces", "serviceaccounts", "priorityclasses"))
