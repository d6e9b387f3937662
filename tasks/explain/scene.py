"""What rules about troubles look at and come to: lines with their places, workers as last seen, troubles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import Place


@dataclass(frozen=True)
class Line:
    """One recorded line and where it stands. `said`: by slicebench itself, as the cause of a failure."""

    place: Place
    text: str
    said: bool = False


@dataclass(frozen=True)
class Seen:
    """What one worker was last seen doing. `since` is seconds since the epoch by the worker's host.

    `step`: started, joining, joined, point, operation, done or exited; `doing` says it in words.
    """

    worker: int
    step: str
    doing: str
    since: float
    line: Line


@dataclass(frozen=True)
class Scene:
    """Everything that rules may look at. `owner_alive` None: not known, or nobody owns it.

    `workers` is what streams on this machine say; empty where they lie on other hosts. `torn` are files of results that
    are gone or cut short. `run` is the run as commands take it. `trouble` is the kind of what ended it, by its outcome.
    """

    run_id: str
    run: str
    ended: bool
    lines: Sequence[Line] = ()
    workers: Sequence[Seen] = ()
    torn: Sequence[Line] = ()
    lease_id: str = ""
    lease_state: str = ""
    lease_note: str = ""
    lease_place: str = ""
    owner: str = ""
    owner_alive: bool | None = None
    trouble: str | None = None


@dataclass(frozen=True)
class Trouble:
    """One trouble. `follows`: it is what others go through when one fails, never the root. `next` are commands."""

    name: str
    what: str
    evidence: Sequence[Line] = ()
    next: Sequence[str] = ()
    unknown: str = ""
    follows: bool = field(default=False)
