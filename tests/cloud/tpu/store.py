"""The stand-in's memory: one JSON file under a lock, so that server, tests and the survivors of kills see the same."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

World = dict[str, Any]
"""born, settings, faults, nodes, queued, operations, hosts, next: everything there is."""

SETTINGS: dict[str, Any] = {
    "projects": ["proj"],
    "create_s": 0.1,  # a node from CREATING to READY
    "accepted_s": 0.05,  # a queued resource from ACCEPTED to WAITING_FOR_RESOURCES
    "delete_s": 0.1,
    "suspend_s": 0.05,
    "update_s": 0.05,
    "page": 2,  # of a list, when the caller does not say
    "hold": [],  # states in which things stay until this is changed
    "stockouts": [],  # "zone" or "zone/family"
    "quotas": {},  # "zone/family" → chips
    "reservations": [],  # names of reservations there are
    "denied": [],  # methods that the caller may not use
    "unreachable": [],  # zones that lists leave out
    "undeletable": [],  # names whose deletion is refused
    "missing_workers": 0,  # endpoints that a READY node lacks
    "external_addresses": True,
    "os_login": "FALSE",  # what the project's metadata says of enable-oslogin
}


class Store:
    """State in a folder: `world.json`, `requests.jsonl` and a lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "world.json"
        self._log = folder / "requests.jsonl"

    @contextmanager
    def changing(self) -> Iterator[World]:
        """Gives the world under the lock; what the block changed is kept, even when it raises."""
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            world = self._load()
            try:
                yield world
            finally:
                new = self._file.with_suffix(".new")
                new.write_text(json.dumps(world, sort_keys=True))
                os.replace(new, self._file)  # noqa: PTH105

    def reset(self) -> None:
        """Begins a new world, of which no request has been asked."""
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._file.unlink(missing_ok=True)
            self._log.unlink(missing_ok=True)

    def forget(self) -> None:
        """Begins a new log of requests."""
        self._log.unlink(missing_ok=True)

    def read(self) -> World:
        """Returns a copy of the world as it is written."""
        return self._load()

    def log(self, **entry: Any) -> None:
        """Appends one request to the log, at one stroke: whoever reads it meanwhile sees whole lines."""
        line = json.dumps({"at": time.time(), **entry}, sort_keys=True) + "\n"
        with self._log.open("ab", buffering=0) as stream:
            stream.write(line.encode())

    def requests(self) -> list[dict[str, Any]]:
        """Returns every request so far, oldest first."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def _load(self) -> World:
        if self._file.exists():
            world: World = json.loads(self._file.read_text())
            return world
        return {
            "born": time.time_ns(),
            "settings": copy.deepcopy(SETTINGS),
            "faults": [],
            "nodes": {},
            "queued": {},
            "operations": {},
            "hosts": [],
            "next": 1,
        }
