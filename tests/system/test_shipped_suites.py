"""Every suite in configs/suites/ runs once, on as many workers as it needs, or says why it does not."""

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

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]  # a minute or two, on a quiet machine

DEVICES = 4
SHIPPED = {path.stem: path for path in sorted((ROOT / "configs" / "suites").glob("*.yaml"))}
TOGETHER = {"emergency", "multislice_broadcast", "peer_to_peer", "single_replica", "slow_worker"}
"""Need two workers. One does for the others: saves by Orbax's v1 interface may hang on several (docs/benchmarks.md)."""

ELSEWHERE = {"restart", "snapshotter", "pytorch", "slice_of_16", "two_slices_of_16"}
"""The first is run by test_restart.py; the others need Pathways, GPUs, and 16 or 32 devices: of these the last are
quickstart with another mesh.
"""

HERE = sorted(SHIPPED.keys() - ELSEWHERE)

NOT_RUN = {"storage_faults": "it needs an output in a bucket: gs://…"}
NOT_EVERYWHERE = {"colocated_dispatch": "it needs cloudpickle, which the venv lacks"}
"""Some points of it, where the venv is one without."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all of them were run: by one worker, or by two."""
    folder = tmp_path_factory.mktemp("shipped")
    run(folder, sorted(set(HERE) - TOGETHER), workers=1)
    run(folder, sorted(TOGETHER), workers=2)
    yield folder


def run(folder: Path, names: list[str], workers: int) -> None:
    """Runs suites one after the other, a repeat of each."""
    for name in names:
        text = apply_overrides(SHIPPED[name].read_text(), ["warmup=0", "num_repeats=1"])
        (folder / f"{name}.yaml").write_text(text)
    where = [f"127.0.0.1:{free_port()}", str(DEVICES // workers)]
    started = []
    for number in range(workers):
        command = [sys.executable, "-m", "tests.system.suites_in_turn", str(folder)]
        with log(folder, number).open("ab") as file:
            process = subprocess.Popen(
                [*command, str(number), str(workers), *where, *names],
                stdout=file,
                stderr=file,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        started.append(process)
    try:
        assert [each.wait(2 * PATIENCE_S) for each in started] == [0] * workers, log(folder, 0).read_text()[
            -4000:
        ]
    finally:
        for each in started:
            each.kill()
            each.wait()


def log(folder: Path, worker: int) -> Path:
    return folder / f"worker{worker}.log"


def points(folder: Path, name: str, worker: int) -> list[dict[str, Any]]:
    path = folder / name / points_file(1, worker)
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", HERE)
def test_it_runs_or_says_why_it_does_not(ran: Path, name: str) -> None:
    told = [points(ran, name, worker) for worker in range(2 if name in TOGETHER else 1)]
    assert all(told) and {len(each) for each in told} == {len(told[0])}
    for point in (point for each in told for point in each):
        if (why := NOT_RUN.get(name)) is not None:
            assert (point["status"], point["cause"]) == ("not_run", why)
        elif point["status"] == "not_run":
            assert point["cause"] == NOT_EVERYWHERE.get(name)
        else:
            assert (point["status"], point["cause"], point["repeats_done"]) == ("passed", "", 1)
            assert point["implementation"] == "native"


@pytest.mark.parametrize("name", HERE)
def test_it_leaves_nothing_but_results(ran: Path, name: str) -> None:
    checkpoints = ran / name / "checkpoints"
    assert [path for path in checkpoints.rglob("*") if path.is_file()] == []
