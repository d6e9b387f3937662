"""Where a Prefect server that `slicebench up` starts keeps its state, and what is written down of it while it is up."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from flows.server import UP_FILE, read_up_file
from flows.serving.settings import new_auth_string
from runtime.contract.errors import InfrastructureError
from runtime.contract.process import boot_id, started_at
from tasks.cloud.local_storage import replacing
from tasks.config.home import home
from tasks.leases.machine import this_machine


@dataclass(frozen=True)
class Process:
    """A process by what makes it one and no other: a pid alone may be another's tomorrow.

    `started_at` is in seconds after the machine's start, which `boot_id` names: who sets the clock kills nobody.
    """

    what: str
    pid: int
    started_at: float
    boot_id: str = ""

    @classmethod
    def of(cls, what: str, pid: int) -> Process:
        """Returns the process that has this pid now; one that has ended by now is never found again."""
        return cls(what, pid, started_at(pid) or 0.0, boot_id())

    def found(self) -> psutil.Process | None:
        """Returns it, or None when it has ended."""
        if self.boot_id != boot_id() or started_at(self.pid) != self.started_at:
            return None
        try:
            return psutil.Process(self.pid)
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True)
class Up:
    """What runs: the `slicebench up` itself, and what it started."""

    api_url: str
    auth_string: str
    owner: Process
    children: tuple[Process, ...]


def folder() -> Path:
    """Returns the server's own PREFECT_HOME: its database, logs and auth string."""
    return home() / "prefect" / "server"


def worker_of(pool: str) -> str:
    """Returns what the worker of a pool is called: by its host, and by what tells this state root from all others."""
    root = hashlib.sha256(f"{this_machine()} {home()}".encode()).hexdigest()[:6]
    return f"{pool}-on-{socket.gethostname()}-{root}"


def auth_file() -> Path:
    """Returns where the auth string lies, mode 0600."""
    return home() / "prefect" / "auth"


def auth_string() -> str:
    """Returns the auth string, the same every time, so that browsers and runs that go on need no new one."""
    path = auth_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_auth_string() + "\n")
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise InfrastructureError(
                f"others may read {path}: chmod 600 {path}, or delete it for a new one"
            ) from None
    return path.read_text().strip()


def write_up(up: Up) -> None:
    """Writes down that it is up, whole or not at all, readable by its user only."""
    with replacing(home() / UP_FILE, 0o600) as file:
        file.write(json.dumps(asdict(up), indent=1).encode())


def read_up() -> Up | None:
    """Returns what is written down, whether or not it still runs."""
    found = read_up_file()
    if found is None:
        return None
    return Up(
        found["api_url"],
        found["auth_string"],
        Process(**found["owner"]),
        tuple(Process(**child) for child in found["children"]),
    )


def forget_up() -> None:
    """Takes it back."""
    (home() / UP_FILE).unlink(missing_ok=True)
