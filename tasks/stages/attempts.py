"""The attempts of a run as they are written down: what each was to run, and how it ended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from runtime.contract.disruption import Restart
from runtime.contract.errors import InfrastructureError
from runtime.contract.names import RESULTS_FOLDER
from runtime.contract.record import record_of
from tasks.stages.context import Run
from tasks.stages.files import ATTEMPTS_FILE
from tasks.targets.types import Attempt, WorkloadRef

_STOP_S = 10.0


@dataclass(frozen=True)
class Started:
    """One attempt. `ref` None: about to be started; `end` empty: not known to have ended.

    `points` are the numbers of those it runs; None: all. What an attempt measured that does not `count` is
    measured again by the next: somebody asked for the whole run once more. `restart` is where it went on, and `reached`
    how far it came, of a benchmark that goes on from its checkpoints. `left_until`: it was left to itself, nobody need
    follow it until then (seconds since the epoch). `code` is the exit code it ended by, where one is known.
    `stopped`: it was stopped on purpose, by us.
    """

    n: int
    ref: WorkloadRef | None = None
    end: str = ""
    cause: str = ""
    points: tuple[int, ...] | None = None
    counts: bool = True
    restart: Restart | None = None
    reached: Restart | None = None
    left_until: float | None = None
    code: int | None = None
    stopped: bool = False

    def __str__(self) -> str:
        return f"attempt {self.n} {self.end}" + (f": {self.cause}" if self.cause else "")

    @property
    def is_left(self) -> bool:
        """Whether it was left to itself, and is not known to have ended."""
        return self.left_until is not None and self.ref is not None and not self.end


class DamagedAttempts(InfrastructureError):
    """The file of attempts cannot be read."""


def read_attempts(run: Run) -> list[Started]:
    """Returns the attempts so far. Raises DamagedAttempts, naming the file and the fix."""
    content = run.folder.read(ATTEMPTS_FILE)
    if content is None:
        return []
    try:
        return [_started(row) for row in json.loads(content)]
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedAttempts(
            f"{run.folder.uri}/{ATTEMPTS_FILE} is damaged ({error}): have everything measured again: "
            f"{run.resume_from('run')}"
        ) from error


def write_attempts(run: Run, attempts: Sequence[Started]) -> None:
    """Replaces what is written down."""
    run.folder.write(ATTEMPTS_FILE, json.dumps([asdict(one) for one in attempts], indent=1).encode())


def mark_ended(run: Run, attempts: Sequence[Started]) -> None:
    """Writes the marker of the stage *run*: the attempts that there were, the last of which was whole."""
    ends = [asdict(Attempt(one.n, one.end, one.cause)) for one in attempts]
    run.mark("run", attempts=ends, results=results_of(run))


def results_of(run: Run) -> str:
    """Returns where workers leave their results."""
    return f"{run.folder.uri}/{RESULTS_FOLDER}"


def start_over(run: Run) -> None:
    """Lets nothing that was measured so far count: the next attempt runs every point, and no other goes on."""
    try:
        attempts = read_attempts(run)
        for one in attempts:
            if one.is_left and one.ref is not None:  # others end when nobody renews
                run.target.stop(one.ref, _STOP_S)
    except DamagedAttempts:
        attempts = [Started(n) for n in range(1, _last_trace(run) + 1)]
    ended = [one if one.end else replace(one, end="lost", cause="it was started over") for one in attempts]
    run.folder.delete(ATTEMPTS_FILE)
    if attempts:
        write_attempts(run, [replace(one, counts=False) for one in ended])


def go_on(run: Run) -> None:
    """Has the run stage done again, by what is missing, unless all that it was to measure is there and passed."""
    ran, collected = run.marker("run"), run.marker("collect")
    if ran is None:
        return
    attempts = ran["outputs"].get("attempts") or [{}]
    succeeded = attempts[-1].get("end") == "succeeded"
    if not succeeded or (collected is not None and not collected["outputs"].get("whole", True)):
        run.forget_from("run")


def _last_trace(run: Run) -> int:
    """Returns the highest number of an attempt that left files: no number may be used twice."""
    names = [*run.folder.names(RESULTS_FOLDER), *run.folder.names("scratch")]
    return max((int(found[1]) for name in names if (found := _TRACE.search(name))), default=0)


_TRACE = re.compile(r"\ba(\d+)-w\d+")


def _started(row: dict[str, Any]) -> Started:
    ref, points = row.get("ref"), row.get("points")
    return record_of(
        Started,
        row,
        ref=record_of(WorkloadRef, ref) if ref else None,
        points=tuple(points) if points is not None else None,
        **{name: record_of(Restart, row[name]) for name in ("restart", "reached") if row.get(name)},
    )
