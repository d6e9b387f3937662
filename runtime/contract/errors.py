"""The error tree, problems with a place and a fix, and the exit codes both sides share.

SlicebenchError
├── BadInput              what the user wrote cannot be run; nothing was made        exit 2
├── InfrastructureError   a machine, service or file system failed us                exit 3
├── WorkloadFailed        a benchmark failed: wrong data, exception, deadline        exit 1
├── Leaked                something we made could not be proven gone                 exit 5
└── Interrupted           the user or the system asked us to stop                    exit 130
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Trouble = Literal["stockout", "quota", "waited", "unqueued"]
"""Kinds of trouble that another place may not have: no room, no quota for it, a queue that did not move in time, or one
that never took it."""

ELSEWHERE: frozenset[str] = frozenset(get_args(Trouble))
"""All of them: programs may go to another place with these."""


class ExitCode(enum.IntEnum):
    """What `slicebench` tells the shell. `worst` says which one wins when several apply."""

    DONE = 0
    WORKLOAD_FAILED = 1
    BAD_INPUT = 2
    INFRASTRUCTURE = 3
    REGRESSION = 4
    LEAKED = 5
    INTERRUPTED = 130


_FIRST_THAT_APPLIES = (
    ExitCode.LEAKED,
    ExitCode.INTERRUPTED,
    ExitCode.BAD_INPUT,
    ExitCode.INFRASTRUCTURE,
    ExitCode.WORKLOAD_FAILED,
    ExitCode.REGRESSION,
    ExitCode.DONE,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Returns the code that outranks the others; DONE when there are none."""
    return min(codes, key=_FIRST_THAT_APPLIES.index, default=ExitCode.DONE)


@dataclass(frozen=True, order=True)
class Place:
    """Where in a file something stands; line and column count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in words a user can act on.

    `unanswered`: no input is known to be wrong, for a service does not answer, or a disk is full.
    """

    severity: Literal["error", "warning"]
    place: Place | None
    what: str
    why: str = ""
    fix: str = ""
    unanswered: bool = False

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        told = ", ".join(part for part in (self.what, self.why, self.fix) if part)
        return f"{where}{'warning: ' if self.severity == 'warning' else ''}{told}"


class SlicebenchError(Exception):
    """Base of every error that slicebench raises on purpose."""

    exit_code: ExitCode = ExitCode.INFRASTRUCTURE
    trouble: Trouble | None = None
    """What programs may act on, where it is known: it is written into outcome.json."""


class BadInput(SlicebenchError):
    """The input cannot be run. Carries all problems found, not only the first."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: Sequence[Problem] | Problem | str, *, fix: str = "") -> None:
        if isinstance(problems, str):
            problems = Problem("error", None, problems, fix=fix)
        if isinstance(problems, Problem):
            problems = [problems]
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InfrastructureError(SlicebenchError):
    """A machine, service or file system failed."""

    exit_code = ExitCode.INFRASTRUCTURE


def refusal(errors: Sequence[Problem]) -> SlicebenchError:
    """Returns what is raised for errors: where the only trouble is services and disks that fail, no input is bad."""
    if all(error.unanswered for error in errors):
        return InfrastructureError("\n".join(map(str, errors)))
    return BadInput(errors)


class WorkloadFailed(SlicebenchError):
    """The program under test failed."""

    exit_code = ExitCode.WORKLOAD_FAILED


class Leaked(SlicebenchError):
    """Something made for a run may still be there."""

    exit_code = ExitCode.LEAKED


class Interrupted(SlicebenchError):
    """Somebody asked the run to stop."""

    exit_code = ExitCode.INTERRUPTED
