"""For tests: a running stand-in for Cloud TPU, its settings, its faults, and what it saw."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cloud.handles import Handles, serving
from tests.cloud.tpu import world
from tests.cloud.tpu.store import Store


class Cloud(Handles):
    """Handles of a running stand-in."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        super().__init__(Store(folder))
        self.endpoint = endpoint

    def preempt(self, node_id: str) -> None:
        """Takes a node away, as the service does with spot capacity."""
        with self.store.changing() as state:
            name = next(name for name in state["nodes"] if name.endswith(f"/{node_id}"))
            world.preempt(state, name, time.time())

    def vanish(self, name_end: str) -> None:
        """Removes a node or queued resource without a trace."""
        with self.store.changing() as state:
            for table in ("nodes", "queued"):
                for name in [name for name in state[table] if name.endswith(f"/{name_end}")]:
                    del state[table][name]

    def inventory(self) -> list[str]:
        """Returns the names of all nodes and queued resources, in whatever state."""
        with self.store.changing() as state:
            world.advance(state, time.time())
            return sorted((*state["nodes"], *state["queued"]))


@contextmanager
def running(folder: Path, more: Sequence[str] = ()) -> Iterator[Cloud]:
    """Serves Cloud TPU from a process of its own while the block runs."""
    with serving("tpu", folder, more):
        yield Cloud(folder, f"127.0.0.1:{(folder / 'port').read_text()}")


@pytest.fixture(scope="session")
def tpu_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One stand-in for all tests of a process."""
    with running(tmp_path_factory.mktemp("tpu")) as cloud:
        yield cloud


@pytest.fixture
def tpu_cloud(tpu_server: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """The stand-in, as new: nothing in it, no faults; this process's environment leads to it."""
    monkeypatch.setenv("SLICEBENCH_TPU_ENDPOINT", tpu_server.endpoint)
    monkeypatch.setenv("SLICEBENCH_PROJECT", "proj")
    tpu_server.store.reset()
    return tpu_server
