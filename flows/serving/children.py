"""The processes that `slicebench up` starts: out of reach of the terminal's Ctrl-C, logging to a file, stoppable."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from flows.serving import place
from flows.serving.place import Process

STOP_S = 20.0


@dataclass(frozen=True)
class Child:
    """One started process; `log` holds what it prints."""

    process: Process
    handle: subprocess.Popen[bytes]
    log: Path

    @property
    def ended(self) -> bool:
        """Whether it is gone, on its own account or not."""
        return self.handle.poll() is not None


def start(what: str, command: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> Child:
    """Starts one process in a session of its own; what it said in its last life is kept as LOG.1."""
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    with log.open("wb") as output:
        handle = subprocess.Popen(
            list(command),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_hear_signals,
        )
    return Child(Process.of(what, handle.pid), handle, log)


def stop(process: Process, timeout_s: float = STOP_S) -> None:
    """Asks a process to end, waits, then kills it and what is left of its group. One that has ended is no error."""
    found = process.found()
    if found is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        found.terminate()
        try:
            found.wait(timeout_s)
        except psutil.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def clear_leftovers(tell: Callable[[str], None]) -> place.Up | None:
    """Returns what is up, or None, having stopped what an `up` that was killed left behind."""
    found = place.read_up()
    if found is None or found.owner.found() is not None:
        return found
    for child in found.children:
        if child.found() is not None:
            tell(f"stopping {child.what} (process {child.pid}), left by an earlier slicebench up")
            stop(child)
    place.forget_up()
    return None


def _hear_signals() -> None:
    """Runs in the child: started in the background of a script, it would inherit deafness to SIGINT.

    A Prefect worker that ignores SIGINT ignores SIGTERM as well.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
