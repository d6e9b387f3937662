"""What is told of the logs of pods: their lines, that one came to its end, and that one cannot be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Source:
    """Whose log: one start of one container. `restart` counts from 0."""

    pod: str
    uid: str
    container: str
    restart: int = 0


class Line(NamedTuple):
    """A line of a log. `at` is when it was written, by the node's clock: 2026-01-31T23:59:59.123456789Z."""

    source: Source
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Nothing more comes of a log. `complete`: it was read to its end; else `why` not."""

    source: Source
    complete: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A log cannot be read at present, and why, though the server answers: its node may not. An empty text: it can."""

    source: Source
    node: str
    why: str

    def __str__(self) -> str:
        of = f"the log of pod {self.source.pod}{f' on node {self.node}' if self.node else ''}"
        if not self.why:
            return f"{of} can be read again"
        return f"{of} cannot be read, though the cluster answers: {self.why}"


Told = Line | LogEnd | Unread
Put = Callable[[Sequence[Told]], Awaitable[None]]
