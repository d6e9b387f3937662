"""What whole runs share: the venv that their workers run in is built once, not by every test anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GIVEN_HOME = os.environ.get("SLICEBENCH_HOME")
"""As the tests were started with: kept from one start of them to the next."""


@pytest.fixture(scope="session")
def venvs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the venvs of every state root; what builds in it is the product, which lets one builder wait."""
    if GIVEN_HOME:
        shared = Path(GIVEN_HOME) / "venvs"
    else:
        # Each process of pytest-xdist has a folder of its own in one that they share.
        base = tmp_path_factory.getbasetemp()
        shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "venvs"
    shared.mkdir(parents=True, exist_ok=True)
    return shared


@pytest.fixture(autouse=True)
def home(clean_environment: Path, venvs: Path) -> Path:
    """The test's own state root ($SLICEBENCH_HOME): nothing of another test is in it but venvs."""
    return with_venvs(clean_environment, venvs)


def with_venvs(home: Path, venvs: Path) -> Path:
    """Lets a state root use the venvs; returns it."""
    (home / "venvs").symlink_to(venvs)
    return home
