"""One of our own commands as a process of its own: it is watched, told to stop in time, and killed if it does not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.contract.errors import InfrastructureError

_LOOK_EVERY_S = 0.2
_TAIL = 2000
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ChildEnd:
    """How the process ended. `told`: the JSON object that it printed, if any; `said`: its last words.

    `cut`: it was told to stop; `killed`: it did not, in the time that it had.
    """

    code: int
    told: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    cut: bool = False
    killed: bool = False


@dataclass(frozen=True)
class Given:
    """What a process is given: where it speaks, its environment, and open files that stay open in it."""

    log: Path
    environ: Mapping[str, str]
    descriptors: tuple[int, ...] = ()


def play(words: Sequence[str], given: Given, *, until: Callable[[], bool], stop_s: float) -> ChildEnd:
    """Runs a command to its end. Once `until` says so it gets SIGINT, and after `stop_s` more seconds SIGKILL.

    It has a session of its own: a Ctrl-C here reaches it by our hand alone, once. Raises InfrastructureError where it
    cannot be started.
    """
    log = given.log
    log.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, (str(_ROOT), given.environ.get("PYTHONPATH"))))
    out = log.with_suffix(".json")
    with log.open("ab") as err, out.open("wb") as told:
        try:
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=err,
                env={**given.environ, "PYTHONPATH": path},
                pass_fds=given.descriptors,
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(f"{words[0]} cannot be started: {error}") from error
        cut, killed = _watch(process, until, stop_s)
    said = log.read_bytes()[-_TAIL:].decode(errors="replace")
    return ChildEnd(process.returncode, _object(out), said, cut, killed)


def _watch(process: subprocess.Popen[bytes], until: Callable[[], bool], stop_s: float) -> tuple[bool, bool]:
    while not _ended(process, _LOOK_EVERY_S):
        if until():
            process.send_signal(signal.SIGINT)
            break
    else:
        return False, False
    if _ended(process, stop_s):
        return True, False
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True, True


def _ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _object(out: Path) -> Mapping[str, Any]:
    """Returns what was printed; nothing where that is no object: whoever is killed may have printed half."""
    try:
        found = json.loads(out.read_bytes())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def wait_for(condition: Callable[[], bool], until: Callable[[], bool]) -> bool:
    """Waits until something holds; returns whether it does, else `until` said to stop."""
    while not condition():
        if until():
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def deadline(after_s: float, stop: threading.Event) -> Callable[[], bool]:
    """Returns what says that a time is over, or that everything is to stop."""
    ends = time.monotonic() + after_s
    return lambda: stop.is_set() or time.monotonic() >= ends
