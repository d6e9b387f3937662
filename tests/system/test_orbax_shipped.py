"""Orbax's own configs run unchanged: every point that fits passes, and none is lost."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.names import points_file
from tests.system.prefect_station import PATIENCE_S, ROOT

pytestmark = pytest.mark.system


def configs() -> Path:
    found = importlib.util.find_spec("orbax.checkpoint")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "_src/testing/benchmarks/configs"


@pytest.mark.parametrize(
    ("name", "devices", "passed"),
    [
        ("pytree_checkpoint_benchmark", 16, 2),
        ("array_handler_benchmark", 4, 20),
        ("checkpoint_manager_benchmark", 4, 2),
    ],
)
def test_shipped_config_passes(tmp_path: Path, name: str, devices: int, passed: int) -> None:
    command = [sys.executable, "-m", "runtime", str(configs() / f"{name}.yaml"), "--output", str(tmp_path)]
    ended = subprocess.run(
        [*command, "--platform", "cpu", "--devices-per-worker", str(devices)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    results = [json.loads(line) for line in (tmp_path / points_file(1, 0)).read_text().splitlines()]
    assert [each["status"] for each in results] == ["passed"] * passed
    assert {each["implementation"] for each in results} == {"native"}
