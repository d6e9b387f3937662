"""What supervisors tell each other: reports go to supervisor 0, commands come from it. One JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from runtime.contract import progress
from runtime.contract.disruption import Restart
from runtime.contract.progress import Deadline, FromWorker


@dataclass(frozen=True)
class Said:
    """A worker told its progress."""

    session: int
    body: FromWorker


@dataclass(frozen=True)
class Left:
    """A worker process is gone. `tail` is the last that it wrote; `out_of_memory`: the kernel killed for memory."""

    session: int
    code: int
    last_words: str = ""
    tail: str = ""
    out_of_memory: bool = False


@dataclass(frozen=True)
class Ended:
    """A session's worker is ended, on command.

    `state` is how the process was found (stopped, uninterruptible, gone
    or nothing); `waits`: its stacks show that it waited for others; `left` names what could not be
    killed; `struck`: it was struck before, and had not told yet that the process is gone."""

    session: int
    state: str = ""
    waits: bool = False
    left: str = ""
    struck: bool = False


@dataclass(frozen=True)
class Stopping:
    """A supervisor must end, whatever the others do."""

    code: int
    cause: str


@dataclass(frozen=True)
class Alive:
    """Nothing new; the sender is there."""


@dataclass(frozen=True)
class Blame:
    """A point that failed, its root cause, and the worker that this names, if it names one."""

    point: int
    cause: str
    worker: int | None = None


@dataclass(frozen=True)
class Start:
    """Start a session at a point; write down what became of the one before.

    With `restart`, go on in the middle of that point: the session before was disrupted on purpose.
    """

    session: int
    first_point: int
    coordinator: str | None
    blame: Blame | None = None
    restart: Restart | None = None


@dataclass(frozen=True)
class Strike:
    """Disrupt the session: kill its worker where that is one of `workers`, by the signal of this name."""

    session: int
    workers: Sequence[int]
    signal: str


@dataclass(frozen=True)
class End:
    """End the session's worker; `dump`: have it write its stacks before. `deadline`: what ran out, if that is why."""

    session: int
    dump: bool
    deadline: Deadline | None = None


@dataclass(frozen=True)
class Finish:
    """It is over. Write down what became of the last session and of the points never reached, seal, exit with code."""

    code: int
    cause: str = ""
    blame: Blame | None = None
    not_run_from: int | None = None
    points: int = 0


Report = Said | Left | Ended | Stopping | Alive
Command = Start | Strike | End | Finish | Alive
Message = Report | Command

_TYPES: Mapping[str, type[Message]] = {
    cls.__name__: cls for cls in (Said, Left, Ended, Stopping, Alive, Start, Strike, End, Finish)
}


def dump(message: Message) -> bytes:
    """Returns a message as one line, with its newline."""
    content: dict[str, Any] = {"message": type(message).__name__}
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, FromWorker | Deadline):
            value = json.loads(progress.encode(value))
        elif isinstance(value, Blame | Restart):
            value = asdict(value)
        content[field.name] = value
    return json.dumps(content).encode() + b"\n"


def load(line: bytes) -> Message:
    """Reads a line. Raises ValueError when it is no message."""
    try:
        content = json.loads(line)
        cls = _TYPES[content.pop("message")]
        for name in ("body", "deadline"):
            if content.get(name) is not None:
                content[name] = progress.parse(json.dumps(content[name]))
        for name, part in (("blame", Blame), ("restart", Restart)):
            if content.get(name) is not None:
                content[name] = part(**content[name])
        if "workers" in content:
            content["workers"] = tuple(content["workers"])
        return cls(**content)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from error
