"""The guard of a supervisor, a process that ends what is under its labels when the supervisor itself is killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

from runtime.supervision.worker import SESSION_VARIABLE


def start_guard(labels: Sequence[str], code: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts the process that ends everything under `labels` when this one is killed; a line tells it all is well."""
    return subprocess.Popen(
        [
            sys.executable,
            "-S",
            "-m",
            "runtime.supervision.guard",
            *(f"{SESSION_VARIABLE}={label}" for label in labels),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": code},
        start_new_session=True,
    )


def dismiss_guard(guard: subprocess.Popen[bytes]) -> None:
    """Tells it that all is well, and waits for it to go."""
    assert guard.stdin
    with contextlib.suppress(BrokenPipeError):  # somebody killed it
        guard.stdin.write(b"all is well\n")
        guard.stdin.close()
    guard.wait()
