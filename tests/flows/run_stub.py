"""Stands in for a run in this process: leaves an outcome where a run would, and remembers what was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.config.request import RunRequest

ROOT = Path(__file__).parents[2]


def outcome(folder: Path, code: int = 0, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = {"run_id": folder.name, "exit_code": code, "verdict": None, "causes": [], "report": None}
    (folder / "outcome.json").write_text(json.dumps(told | fields))
    request = {"request": {"suite": "quickstart", "run_id": folder.name}}
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "suite.yaml").write_text((ROOT / "configs/suites/quickstart.yaml").read_text())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Collects what was asked of a run in this process."""
    asked: list[RunRequest] = []

    def run_here(request: RunRequest, listener: Any) -> str:
        asked.append(request)
        assert request.output and request.run_id
        outcome(Path(request.output) / request.run_id)
        return ""

    monkeypatch.setattr("flows.here.run_here", run_here)
    return asked
