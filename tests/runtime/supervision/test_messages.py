"""Messages between supervisors: each survives a line, and what is none is refused."""

from __future__ import annotations

import pytest

from runtime.contract.progress import Deadline, Done, Init, Operation, PointPhase
from runtime.supervision.messages import (
    Alive,
    Blame,
    End,
    Ended,
    Finish,
    Left,
    Message,
    Said,
    Start,
    Stopping,
    dump,
    load,
)


@pytest.mark.parametrize(
    "message",
    [
        Said(1, Init("end", process_count=2)),
        Said(1, PointPhase("begin", 0, 2, "B", "k", 2.5, options={"a": [1, None]})),
        Said(1, Operation("end", 0, 2, "B", 1, "save")),
        Said(2, Done(3, 1)),
        Left(1, -9, "last", "a\nlast", True),
        Ended(1, "stopped", True, "7"),
        Stopping(130, "told"),
        Alive(),
        Start(2, 1, "h:1", Blame(0, "why")),
        Start(1, 0, None),
        End(1, True, Deadline("operation", 0, 3.0, "save", 1, (0, 1))),
        End(1, False),
        Finish(3, "why", Blame(0, "why"), 1, 4),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_survives_a_line(message: Message) -> None:
    line = dump(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert load(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b"\xff",
        b"{}",
        b'{"message":"Nothing"}',
        b'{"message":"Left"}',
        b'{"message":"Left","session":1,"code":0,"colour":1}',
        b'{"message":"Said","session":1,"body":{"kind":"what"}}',
        b'{"message":["Left"]}',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        load(line)
