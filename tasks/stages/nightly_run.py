"""One run of a night: begun, gone on with, or left to whoever has it already; cut at its deadline; how it ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.cloud.storage import Folder, is_there, open_folder, read_json
from tasks.config.duration import in_words
from tasks.config.nightly_cells import CellRun
from tasks.config.request import RunRequest
from tasks.leases import owner as owners
from tasks.leases.ledger import latest
from tasks.leases.opening import the_ledger
from tasks.stages.asked import read_asked
from tasks.stages.context import Say
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE
from tasks.stages.nightly_child import ChildEnd, Given, deadline, play, wait_for

Status = Literal["passed", "failed", "not_run"]

_SETTLED = {ExitCode.DONE: "passed", ExitCode.REGRESSION: "passed", ExitCode.WORKLOAD_FAILED: "failed"}
"""Codes after which a run is not made again in a night that is retried, and what became of it."""

_FLAGS = (
    *("repo", "branch", "pr", "commit", "jax_index", "run_deadline_s"),
    *("history", "night", "track", "stop_after_checkpoints"),
)
"""Fields of a request that go to the command where they have a value."""

_TRIES = 3
"""How often a run is looked at anew that somebody else took between our look and our begin."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended. Times in seconds since the epoch: of the whole run, None where it never began.

    `trouble`: the kind of what went wrong, where another place may not have it; `deadline`: it was cut at its
    deadline; `stopped`: the night was.
    """

    run_id: str
    folder: str
    target: str
    status: Status
    exit_code: int
    causes: Sequence[str] = ()
    trouble: str | None = None
    verdict: str | None = None
    report: str | None = None
    began_at: float | None = None
    ended_at: float | None = None
    side: str = "here"
    rerun: int = 0

    @property
    def cause(self) -> str:
        """Returns the root cause in a line; empty where nothing went wrong."""
        return self.causes[0].splitlines()[0] if self.causes and self.causes[0] else ""


@dataclass(frozen=True)
class Hands:
    """By what a run is made, and what gives back in its stead. `flags` go with every command.
    `workload`: what commands about workloads begin with.

    `release` takes a run's id, its lease's name and why; `is_held` the first two, and says whether a run goes on.
    """

    command: Sequence[str]
    release: Callable[[str, str, str], None]
    is_held: Callable[[str, str], bool]
    flags: Sequence[str] = ()
    workload: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True)
class Watch:
    """How long a run may take and how long to give back, in seconds; `stop` ends it before; `logs`: where it speaks.

    `holds`: descriptors of locks that the run holds as well; `what` it is a part of.
    """

    limit_s: float
    stop_s: float
    stop: threading.Event
    logs: Path
    holds: tuple[int, ...] = ()
    what: str = "night"


def measure(one: CellRun, hands: Hands, watch: Watch, say: Say) -> RunEnd:
    """Makes a run, or goes on with it. Whatever happens there, it is told by what is returned."""
    if (ended := settled(one)) is not None:
        return ended
    folder, began_at = _folder(one), time.time()
    until = deadline(watch.limit_s, watch.stop)
    child = None
    for _ in range(_TRIES):
        before = folder.read(OUTCOME_FILE)
        if _goes_on(folder, one.run_id, hands):
            say(f"{one.run_id}: goes on already; waiting for it")
            child = _await(folder, one.run_id, hands, watch, until)
        elif (ended := settled(one)) is not None:  # it came to its end between our looks
            return ended
        elif watch.stop.is_set():
            return _never(one, folder, ExitCode.INTERRUPTED, f"the {watch.what} was interrupted", "stopped")
        else:
            say(f"{one.run_id}: begins")
            words = [*hands.command, *words_of(one.request, is_there(folder, REQUEST_FILE)), *hands.flags]
            log = watch.logs / f"{one.run_id}.log"
            given = Given(log, hands.environ, watch.holds)
            child = play(words, given, until=until, stop_s=watch.stop_s)
        if child.cut:
            return replace(_cut(one, folder, child, hands, watch), began_at=began_at, ended_at=time.time())
        after = folder.read(OUTCOME_FILE)
        if after is not None and (after != before or _settled(folder) is not None):
            return _end(one, folder, read_json(folder, OUTCOME_FILE) or {})
        if not _goes_on(folder, one.run_id, hands) and child.code:
            break
    return _told_by(one, folder, child or ChildEnd(int(ExitCode.INFRASTRUCTURE)))


def settled(one: CellRun) -> RunEnd | None:
    """Returns how a run ended that is not to be made again in this night; None: it is, or was never made."""
    folder = _folder(one)
    ended = _settled(folder)
    return None if ended is None else _end(one, folder, ended)


def goes_on(one: CellRun, hands: Hands) -> bool:
    """Whether a process has the run already, or waits for Prefect to begin it."""
    return _goes_on(_folder(one), one.run_id, hands)


def _folder(one: CellRun) -> Folder:
    return open_folder(f"{one.request.output}/{one.run_id}")


def words_of(request: RunRequest, resume: bool) -> list[str]:
    """Returns the words of the command that makes a run, or goes on with it."""
    output = ["--output", str(request.output), "--json"]
    if resume:
        return ["--resume", str(request.run_id), *output]
    words = [request.suite, "--target", request.target, "--run-id", str(request.run_id), *output]
    words += ["--wait-for-lock", request.wait_for_lock, "--jax-version", request.jax_version]
    for name in _FLAGS:
        if (value := getattr(request, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for name in ("set", "env", "env_file"):
        for value in getattr(request, name):
            words += [f"--{name.replace('_', '-')}", value]
    return words


def _settled(folder: Folder) -> Mapping[str, Any] | None:
    """Returns how a run ended that is not to be made again; None: it is."""
    outcome = read_json(folder, OUTCOME_FILE)
    return outcome if isinstance(outcome, dict) and outcome.get("exit_code") in _SETTLED else None


def _goes_on(folder: Folder, run_id: str, hands: Hands) -> bool:
    """Whether a process has the run, or waits for Prefect to begin it."""
    return read_asked(folder) is not None or hands.is_held(run_id, run_id)


def _await(folder: Folder, run_id: str, hands: Hands, watch: Watch, until: Callable[[], bool]) -> ChildEnd:
    """Waits for a run that is another process's; at the end of the time that one is told to stop."""

    def over() -> bool:
        return not _goes_on(folder, run_id, hands)

    if wait_for(over, until):
        return ChildEnd(0)
    _signal_owner(run_id, signal.SIGINT)
    given_up = time.monotonic() + watch.stop_s
    return ChildEnd(0, cut=True, killed=not wait_for(over, lambda: time.monotonic() >= given_up))


def _cut(one: CellRun, folder: Folder, child: ChildEnd, hands: Hands, watch: Watch) -> RunEnd:
    """Tells how a run ended that was told to stop; what it did not give back is given back here."""
    stopped = watch.stop.is_set()
    why = (
        f"the {watch.what} was interrupted"
        if stopped
        else f"cut at its deadline of {in_words(watch.limit_s)}"
    )
    code = ExitCode.INTERRUPTED if stopped else ExitCode.INFRASTRUCTURE
    if child.killed:
        why += f"; it did not stop within {in_words(watch.stop_s)} and was killed"
        _signal_owner(one.run_id, signal.SIGKILL)
    try:
        hands.release(one.run_id, one.run_id, why)
    except SlicebenchError as error:
        code, why = error.exit_code, f"{why}; {error}"
    ended = _settled(folder)
    if ended is not None and code is not ExitCode.LEAKED:  # it came to its end just then
        return _end(one, folder, ended)
    outcome = read_json(folder, OUTCOME_FILE)
    if isinstance(outcome, dict) and outcome.get("exit_code") == ExitCode.LEAKED:
        code = ExitCode.LEAKED
    return _never(one, folder, code, why, "stopped" if stopped else "deadline")


def _signal_owner(run_id: str, number: signal.Signals) -> None:
    """Sends a signal to the process that has the run's lease, if that is on this machine."""
    lease = latest(the_ledger(), run_id)
    owner = lease.owner if lease is not None else None
    if owner is not None and owners.is_alive(owner) and not owners.is_this_process(owner):
        os.kill(owner.pid, number)


def _end(one: CellRun, folder: Folder, outcome: Mapping[str, Any]) -> RunEnd:
    code = ExitCode(outcome.get("exit_code", ExitCode.INFRASTRUCTURE))
    ended_at, took_s = outcome.get("finished_at"), outcome.get("took_s")
    return RunEnd(
        run_id=one.run_id,
        folder=folder.uri,
        target=one.cell.target,
        status=_SETTLED.get(code, "not_run"),  # type: ignore[arg-type]
        exit_code=int(code),
        causes=[str(cause) for cause in outcome.get("causes") or ()],
        trouble=outcome.get("trouble"),
        verdict=outcome.get("verdict"),
        report=outcome.get("report"),
        began_at=ended_at - took_s if ended_at is not None and took_s is not None else None,
        ended_at=ended_at,
        side=one.side,
        rerun=one.rerun,
    )


def _told_by(one: CellRun, folder: Folder, child: ChildEnd) -> RunEnd:
    """Returns the end of a run that did not write down how it ended: what its command said, else its last words."""
    told = child.told.get("error") or next(iter(child.told.get("causes") or ()), None)
    lines = [line for line in child.said.splitlines() if line.strip()]
    cause = told or (lines[-1].removeprefix("slicebench: ") if lines else "it ended without a word")
    code = ExitCode(child.code) if child.code in set(ExitCode) and child.code else ExitCode.INFRASTRUCTURE
    return _never(one, folder, code, str(cause), None)


def _never(one: CellRun, folder: Folder, code: ExitCode, cause: str, trouble: str | None) -> RunEnd:
    return RunEnd(
        one.run_id,
        folder.uri,
        one.cell.target,
        "failed" if code is ExitCode.WORKLOAD_FAILED else "not_run",
        int(code),
        [cause],
        trouble,
        side=one.side,
        rerun=one.rerun,
    )
