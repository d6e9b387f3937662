"""The line protocol: what goes in comes out, and nothing strange gets through."""

from __future__ import annotations

import json

import pytest

from runtime.contract import progress
from runtime.contract.progress import (
    Deadline,
    Done,
    Exited,
    Init,
    Log,
    Operation,
    PointPhase,
    encode,
    parse,
    parse_record,
)

BODIES = [
    Init("begin"),
    Init("end", process_count=2, device_count=4, local_device_count=2, platform="cpu"),
    PointPhase("begin", 1, 4, "save", "k", deadline_s=2.5, options={"a": [1]}, mesh={"x": 2}),
    PointPhase("end", 1, 4, "save", "k", status="failed", cause="a \u2028 line\nof two"),
    Operation("begin", 1, 4, "save", 0, "restore"),
    Done(4, 1),
    progress.Started(1, 77, 3),
    Log("\x00 \ud7ff é \x1b[31m", "stderr"),
    Deadline("operation", 1, 30.0, "save", 2, (0, 1)),
    progress.Stacks("Thread 0x1"),
    progress.WorkerExited(1, -9, "killed"),
    Exited(3, "gone"),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_survives_a_line(body: progress.Body) -> None:
    line = encode(body)
    assert "\n" not in line
    assert parse(line) == body
    assert parse_record(encode(body, seq=7, at=1.5)) == progress.Record(7, 1.5, body)


def test_unknown_fields_are_ignored() -> None:
    assert parse('{"kind":"done","points":2,"colour":"red"}') == Done(2)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"kind":"nothing"}',
        '{"kind":["done"]}',
        '{"kind":"done"}',
        '{"kind":"done","points":"2"}',
        '{"kind":"done","points":true}',
        '{"kind":"operation","phase":"middle","point":0,"points":1}',
        '{"kind":"point","phase":"begin","point":0,"points":1,"deadline_s":"1"}',
        '{"kind":"point","phase":"begin","point":0,"points":1,"options":[]}',
        "[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_record_is_refused(line: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse(line)


def test_a_line_cut_short_is_no_record() -> None:
    line = encode(Log("text"), seq=3, at=1.0)
    for end in range(len(line)):
        with pytest.raises(ValueError):
            parse_record(line[:end])


def test_a_stream_line_needs_seq() -> None:
    with pytest.raises(ValueError, match="seq"):
        parse_record(encode(Log("text")))


def test_absent_values_are_left_out() -> None:
    assert json.loads(encode(Init("begin"))) == {"kind": "init", "phase": "begin"}
