"""For tests: a running stand-in for Cloud TPU, its settings, its faults, and what it saw."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.tpu import world
from tests.cloud.tpu.store import Store

ROOT = Path(__file__).parents[3]


class Cloud:
    """Handles of a running stand-in. Everything it changes is changed in the state that the server reads."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.endpoint = endpoint
        self.store = Store(folder)

    def set(self, **settings: Any) -> None:
        """Changes settings, see store.SETTINGS."""
        with self.store.changing() as state:
            unknown = settings.keys() - state["settings"].keys()
            assert not unknown, f"no such settings: {unknown}"
            state["settings"].update(settings)

    def fault(self, method: str, action: str, **more: Any) -> None:
        """Injects a fault, see faults.Fault."""
        with self.store.changing() as state:
            state["faults"].append({"method": method, "action": action, **more})

    def no_faults(self) -> None:
        """Takes all faults away."""
        with self.store.changing() as state:
            state["faults"] = []

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

    def requests(self, method: str | None = None) -> list[dict[str, Any]]:
        """Returns the requests seen, those of one method only where it is named."""
        return [one for one in self.store.requests() if method in (None, one["method"])]

    def mutations(self) -> list[dict[str, Any]]:
        """Returns the mutating requests seen."""
        return [one for one in self.store.requests() if one["mutating"]]


@contextmanager
def running(folder: Path, more: Sequence[str] = ()) -> Iterator[Cloud]:
    """Serves Cloud TPU from a process of its own while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cloud",
                "tpu",
                "--state",
                str(folder),
                "--parent",
                str(os.getpid()),
                *more,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 240  # to import the client takes minutes where others use the machine
        while not (folder / "port").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the stand-in did not come up: {(folder / 'log').read_text()}")
            time.sleep(0.02)
        yield Cloud(folder, f"127.0.0.1:{(folder / 'port').read_text()}")
    finally:
        server.kill()
        server.wait()


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
