"""Checks of a machine: each looks at one thing, in its own time, and says what is wrong and which command fixes it."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.contract.errors import SlicebenchError
from tasks.cloud.storage import open_folder, probe_writable

Status = Literal["fine", "warning", "wrong", "unknown"]

_LITTLE_SPACE = 2 * 2**30
"""Bytes below which a disk is called short: a venv with JAX and Orbax takes about 1 GiB."""


@dataclass(frozen=True)
class Finding:
    """What one check found. `fix` is a command, or what to change. `unknown`: it cannot be asked from here."""

    check: str
    status: Status
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """One thing to look at; `look` may take `timeout_s`, after which it counts as wrong and is left alone."""

    name: str
    look: Callable[[], Sequence[Finding]]
    timeout_s: float = 10.0


def examine(checks: Sequence[Check]) -> list[Finding]:
    """Makes all checks at once; returns their findings in order. Never hangs: each check has its own time."""
    places: list[list[Finding]] = [[] for _ in checks]
    threads = [
        threading.Thread(target=_look, args=(check, place), daemon=True)
        for check, place in zip(checks, places, strict=True)
    ]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    found: list[Finding] = []
    for check, place, thread in zip(checks, places, threads, strict=True):
        thread.join(max(0.0, begin + check.timeout_s - time.monotonic()))
        if thread.is_alive():
            what = f"no answer within {check.timeout_s:g} s"
            found.append(
                Finding(check.name, "wrong", what, "see whether its disk or network hangs; try again")
            )
        else:
            found += place
    return found


def _look(check: Check, into: list[Finding]) -> None:
    try:
        into += check.look()
    except SlicebenchError as error:
        into.append(Finding(check.name, "wrong", str(error)))
    except OSError as error:
        into.append(Finding(check.name, "wrong", f"it cannot be looked at: {error}"))


def local_checks(home: Path, output: str, ledger: str) -> list[Check]:
    """Returns the checks of this machine: programs, and the folders that runs need."""
    return [
        Check("python", look_at_python),
        Check("uv", look_at_uv),
        Check("git", look_at_git),
        Check("disk", lambda: look_at_disk(home)),
        Check("folders", lambda: look_at_folders(home, output, ledger), 30.0),
    ]


def look_at_python(version: tuple[int, ...] = sys.version_info[:3]) -> list[Finding]:
    """Whether this Python is one that slicebench runs on, and whether it is in a venv."""
    told = ".".join(map(str, version))
    if version < (3, 11):
        fix = "uv venv --python 3.12, and install slicebench there"
        return [Finding("python", "wrong", f"Python {told}; 3.11 or newer is needed", fix)]
    venv = f"venv {sys.prefix}" if sys.prefix != sys.base_prefix else f"no venv ({sys.prefix})"
    return [Finding("python", "fine", f"Python {told}, {venv}")]


def look_at_uv() -> list[Finding]:
    """Whether uv, which builds the venvs of workers, is there."""
    try:
        from uv import find_uv_bin

        return [Finding("uv", "fine", find_uv_bin())]
    except (ImportError, FileNotFoundError) as error:
        fix = f"{sys.executable} -m pip install uv"
        return [Finding("uv", "wrong", f"uv is missing, so no venv can be built: {error}", fix)]


def look_at_git() -> list[Finding]:
    """Whether git is there: only runs of a repository, branch, pull request or commit need it."""
    found = shutil.which("git")
    if found is None:
        what = "git is missing: --repo, --branch, --pr and --commit cannot be used"
        return [Finding("git", "warning", what, "sudo apt-get install git")]
    return [Finding("git", "fine", found)]


def look_at_folders(home: Path, output: str, ledger: str) -> list[Finding]:
    """One after the other: what one makes to try, another must not take for something that was there."""
    return [
        *look_at_folder("state", str(home), "set SLICEBENCH_HOME to another folder"),
        *look_at_folder("output", output, "name another --output"),
        *look_at_folder("ledger", ledger, "set SLICEBENCH_LEDGER to another"),
    ]


def look_at_folder(name: str, uri: str, fix: str) -> list[Finding]:
    """Whether a folder, which need not be there yet, can be written: a marker is written, read back and deleted."""
    try:
        folder = open_folder(uri)
        problem = probe_writable(folder)
    except SlicebenchError as error:
        return [Finding(name, "wrong", str(error), fix)]
    if problem is None:
        return [Finding(name, "fine", f"{folder.uri} can be written")]
    return [Finding(name, "wrong", f"{folder.uri} cannot be written: {problem.why}", fix)]


def look_at_disk(folder: Path) -> list[Finding]:
    """How much space there is where slicebench keeps its state."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    told = f"{free / 2**30:.1f} GiB free at {there}"
    if free < _LITTLE_SPACE:
        fix = "free some, or set SLICEBENCH_HOME to a folder on another disk"
        return [Finding("disk", "wrong", f"{told}; a venv alone takes 1 GiB", fix)]
    return [Finding("disk", "fine", told)]
