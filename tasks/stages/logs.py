"""What the workers of a run said: the logs in its folder, whole or as they grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from runtime.contract.names import LOGS_FOLDER
from tasks.cloud.storage import Folder, is_there
from tasks.leases.left import left_in
from tasks.leases.outcome import between_passes
from tasks.stages.asked import read_asked
from tasks.stages.files import OUTCOME_FILE

_POLL_S = 0.25


def worker_logs(folder: Folder) -> dict[int, str]:
    """Returns the logs of the latest attempt: worker → name of the file in the run's folder."""
    attempts: dict[int, dict[int, str]] = {}
    for name in folder.names(LOGS_FOLDER):
        path = Path(name)
        worker = path.stem.removeprefix("worker-")
        if path.suffix == ".log" and worker.isdecimal():
            number = path.parent.name.removeprefix("attempt-")
            attempts.setdefault(int(number) if number.isdecimal() else 1, {})[int(worker)] = name
    return dict(sorted(attempts[max(attempts)].items())) if attempts else {}


def log_lines(folder: Folder, logs: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yields (worker, line) of what is there, worker by worker."""
    for worker, name in logs.items():
        for line in (folder.read(name) or b"").decode(errors="replace").splitlines():
            yield worker, line


def follow_logs(folder: Folder, only: int | None) -> Iterator[tuple[int, str]]:
    """Yields (worker, line) as they are written, until the run has ended. Workers may appear later."""
    read: dict[str, int] = {}
    while True:
        ended = has_ended(folder)  # asked before reading: what was written before the end is read
        for worker, name in worker_logs(folder).items():
            if only is None or worker == only:
                data = folder.read(name, read.get(name, 0)) or b""
                whole = len(data) if ended else data.rfind(b"\n") + 1
                read[name] = read.get(name, 0) + whole
                for line in data[:whole].decode(errors="replace").splitlines():
                    yield worker, line
        if ended:
            return
        time.sleep(_POLL_S)


def has_ended(folder: Folder) -> bool:
    """Says whether nothing more will be logged: while a pass of the run goes on, nothing tells how it ended."""
    over = is_there(folder, OUTCOME_FILE) or is_resting(folder)
    return over and read_asked(folder) is None


def is_resting(folder: Folder) -> bool:
    """Says whether the run's workload was left to itself, and nobody follows it now, as far as the folder says."""
    return left_in(folder) is not None and between_passes(folder)
