"""Every suite in configs/suites/ runs on two workers, once, or says why it does not. Restarts: test_restart.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.names import points_file
from runtime.contract.overrides import apply_overrides
from tests.runtime.supervised import free_port
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system

WORKERS, DEVICES = 2, 2
SHIPPED = {path.stem: path for path in sorted((ROOT / "configs" / "suites").glob("*.yaml"))}
ELSEWHERE = {"restart", "snapshotter", "pytorch"}
"""Run by test_restart.py; for Pathways, or GPUs, only."""

NOT_RUN = {"storage_faults": "it needs an output in a bucket: gs://…"}
NOT_EVERYWHERE = {"colocated_dispatch": "it needs cloudpickle, which the venv lacks"}
"""Some points of it, where the venv is one without."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all of them were run, by one pair of workers."""
    folder = tmp_path_factory.mktemp("shipped")
    for name in SHIPPED.keys() - ELSEWHERE:
        once = ["warmup=0", "num_repeats=1"]
        text = apply_overrides(SHIPPED[name].read_text(), once)
        (folder / f"{name}.yaml").write_text(text)
    where = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "tests.system.suites_in_turn", str(folder)]
    logs = [(folder / f"worker{number}.log").open("wb") for number in range(WORKERS)]
    workers = [
        subprocess.Popen(
            [*command, str(number), str(WORKERS), where, str(DEVICES)],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number, log in enumerate(logs)
    ]
    try:
        codes = [each.wait(2 * PATIENCE_S) for each in workers]
        assert codes == [0] * WORKERS, (folder / "worker0.log").read_text()[-4000:]
        yield folder
    finally:
        for each in workers:
            each.kill()
            each.wait()
        for log in logs:
            log.close()


def points(folder: Path, name: str, worker: int) -> list[dict[str, Any]]:
    path = folder / name / points_file(1, worker)
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", sorted(SHIPPED.keys() - ELSEWHERE))
def test_it_runs_or_says_why_it_does_not(folder: Path, name: str) -> None:
    told = [points(folder, name, worker) for worker in range(WORKERS)]
    assert all(told) and {len(each) for each in told} == {len(told[0])}
    for point in (point for each in told for point in each):
        if (why := NOT_RUN.get(name)) is not None:
            assert (point["status"], point["cause"]) == ("not_run", why)
        elif point["status"] == "not_run":
            assert point["cause"] == NOT_EVERYWHERE.get(name)
        else:
            assert (point["status"], point["cause"], point["repeats_done"]) == ("passed", "", 1)
            assert point["implementation"] == "native"


@pytest.mark.parametrize("name", sorted(SHIPPED.keys() - ELSEWHERE))
def test_it_leaves_nothing_but_results(folder: Path, name: str) -> None:
    checkpoints = folder / name / "checkpoints"
    assert [path for path in checkpoints.rglob("*") if path.is_file()] == []
