"""Tests of the runtime that use JAX do so on eight CPU devices of this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.supervised import Crew, Make

DEVICES = 8


@pytest.fixture(scope="session", autouse=True)
def eight_cpu_devices() -> None:
    """Sets up JAX once, before its backend starts, where a collected test has imported it."""
    if "jax" not in sys.modules:
        return
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes crews of supervisors; whatever is left of them goes at the end of the test."""
    crews: list[Crew] = []

    def one(**fields: object) -> Crew:
        crews.append(Crew(tmp_path, **fields))  # type: ignore[arg-type]
        return crews[-1]

    yield one
    for crew in crews:
        crew.end()
