"""What several tests of stages get."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.stages.nights import Nights


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """A folder for nights, and a state root that outlives the one of each night's runs."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    return Nights(tmp_path)
