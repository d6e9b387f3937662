"""For tests: a stand-in with a store is started as a process of its own; its settings, its faults, and what it saw."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cloud.tpu.store import Store
from tests.waiting import until

ROOT = Path(__file__).parents[2]


class Handles:
    """Handles of a running stand-in. Everything they change is changed in the state that the server reads."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def set(self, **settings: Any) -> None:
        """Changes settings, see SETTINGS of its store."""
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

    def requests(self, method: str | None = None) -> list[dict[str, Any]]:
        """Returns the requests seen, those of one method only where it is named."""
        return [one for one in self.store.requests() if method in (None, one["method"])]

    def mutations(self) -> list[dict[str, Any]]:
        """Returns the mutating requests seen."""
        return [one for one in self.store.requests() if one["mutating"]]


@contextmanager
def serving(name: str, folder: Path, more: Sequence[str] = (), ends_s: float = 0.0) -> Iterator[None]:
    """Serves a stand-in while the block runs; at the end it has so many seconds to end what it started."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [name, "--state", str(folder), "--parent", str(os.getpid()), *more]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.cloud", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: (folder / "port").exists() or server.poll() is not None)
        if server.poll() is not None:
            raise RuntimeError(f"the stand-in did not come up: {(folder / 'log').read_text()}")
        yield
    finally:
        if ends_s:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(ends_s)
        server.kill()
        server.wait()
