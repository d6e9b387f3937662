"""The line protocol: what a worker tells its supervisor, and what a supervisor tells everybody.

A worker writes JSON lines to the file descriptor named in SLICEBENCH_PROGRESS_FD (no such variable: nobody
listens). Its supervisor writes `stream.jsonl`, append-only: each line one JSON record with `seq` (1, 2, 3 …
without a gap), `at` (seconds since the epoch) and `kind`. A reader that has seen record n starts again
after n: no line is lost or repeated.

    worker:      encode(Operation("begin", point=0, points=4, operation="save")) + "\\n"
    supervisor:  parse(line) → Operation(…);   encode(body, seq=7, at=1.5) → a line of the stream
    follower:    parse_record(line) → Record(seq=7, at=1.5, body=Operation(…))
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal

PROGRESS_FD_VARIABLE = "SLICEBENCH_PROGRESS_FD"

# Kinds a worker sends; the supervisor puts them into its stream unchanged, with seq and at.
INIT = "init"  # phase, and on end: process_count, device_count, local_device_count, platform
POINT = "point"  # phase, point, points, benchmark, key, deadline_s; on end: status, cause
OPERATION = "operation"  # phase, point, points, benchmark, repeat, operation
STEP = "step"  # state, point, points, repeat, step: of a point that is disrupted
DONE = "done"  # the suite is through: points, failed

# Kinds only a supervisor makes.
STARTED = "started"  # session, pid, first_point
LOG = "log"  # text, stream (stdout or stderr)
DEADLINE = "deadline"  # what ran out, worker, operation, stragglers
STACKS = "stacks"  # text: stack dumps of the worker's threads
WORKER_EXITED = "worker_exited"  # session, code, cause
EXITED = "exited"  # the supervisor ends: code, cause. Always the last record.

PAUSED = "paused"
"""Status of a point whose turn is over and which goes on later: others of its sweep come first."""

Phase = Literal["begin", "end"]
StepState = Literal["begun", "saved", "resumed", "trained"]


@dataclass(frozen=True)
class Init:
    """The worker joins the others (jax.distributed) and finds its devices."""

    phase: Phase
    process_count: int | None = None
    device_count: int | None = None
    local_device_count: int | None = None
    platform: str | None = None


@dataclass(frozen=True)
class PointPhase:
    """A worker begins or ends a point of the suite. `status` is that of results.PointStatus or PAUSED, on end only.

    `generator`, `implementation`, `options`, `mesh`, `checkpoint` and `disruption` (on begin) are those of
    results.PointResult: with them the supervisor can write down a point whose worker died.
    """

    phase: Phase
    point: int
    points: int
    benchmark: str = ""
    key: str = ""
    deadline_s: float | None = None
    status: str | None = None
    cause: str = ""
    generator: str = ""
    implementation: str = ""
    options: Mapping[str, Any] | None = None
    mesh: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    disruption: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Step:
    """How far a worker is in a point that is disrupted, or that goes on from its checkpoints whatever stops it.

    A step has begun to be saved (`begun`), its checkpoint is complete (`saved`), or a worker that was started again
    goes on from it (`resumed`). `trained`: it is done, and has begun to be saved only if that is told as well.
    """

    state: StepState
    point: int
    points: int
    repeat: int
    step: int


@dataclass(frozen=True)
class Operation:
    """A worker begins or ends one timed operation (save, restore …) of a repeat."""

    phase: Phase
    point: int
    points: int
    benchmark: str = ""
    repeat: int = 0
    operation: str = ""


@dataclass(frozen=True)
class Done:
    """The worker is through its suite. `points` counts those of the suite, `failed` those that failed."""

    points: int
    failed: int = 0


@dataclass(frozen=True)
class Started:
    """A session's worker process was started."""

    session: int
    pid: int
    first_point: int = 0


@dataclass(frozen=True)
class Log:
    """One line that the worker wrote; `stream` is stdout, stderr, or supervisor for what that one says."""

    text: str
    stream: str = "stdout"


@dataclass(frozen=True)
class Deadline:
    """A deadline passed. `what`: init, operation, point, run or silence; `stragglers` are workers."""

    what: str
    worker: int
    limit_s: float
    operation: str = ""
    point: int | None = None
    stragglers: Sequence[int] = ()


@dataclass(frozen=True)
class Stacks:
    """Stacks of all threads of the worker, or why there are none."""

    text: str


@dataclass(frozen=True)
class WorkerExited:
    """The worker process of a session is gone. `code` is negative for a signal, as in subprocess."""

    session: int
    code: int
    cause: str = ""


@dataclass(frozen=True)
class Exited:
    """The supervisor ends: the last record. `cause` is the root cause, empty with code 0."""

    code: int
    cause: str = ""


FromWorker = Init | PointPhase | Step | Operation | Done
Body = FromWorker | Started | Log | Deadline | Stacks | WorkerExited | Exited

_KINDS: Mapping[str, type[Body]] = {
    INIT: Init,
    POINT: PointPhase,
    STEP: Step,
    OPERATION: Operation,
    DONE: Done,
    STARTED: Started,
    LOG: Log,
    DEADLINE: Deadline,
    STACKS: Stacks,
    WORKER_EXITED: WorkerExited,
    EXITED: Exited,
}
_KIND_OF = {cls: kind for kind, cls in _KINDS.items()}
_HINTS = {cls: typing.get_type_hints(cls) for cls in _KINDS.values()}


@dataclass(frozen=True)
class Record:
    """One line of a stream. `at` is seconds since the epoch by the worker's host."""

    seq: int
    at: float
    body: Body


def encode(body: Body, *, seq: int | None = None, at: float | None = None) -> str:
    """Returns a body as one line of JSON, without the newline; with `seq` and `at` as a line of a stream."""
    head: dict[str, Any] = {} if seq is None else {"seq": seq, "at": at}
    content = {name: value for name, value in asdict(body).items() if value is not None}
    return json.dumps({**head, "kind": _KIND_OF[type(body)], **content}, separators=(",", ":"))


def parse(line: str | bytes) -> Body:
    """Reads one line, of a worker or of a stream. Unknown fields are ignored.

    Raises ValueError, saying what is wrong, for anything that is not a record: programs write all sorts.
    """
    return _body(_object(line))


def parse_record(line: str | bytes) -> Record:
    """Reads one line of a stream. Raises ValueError when it is not one, as a line cut short is not."""
    content = _object(line)
    seq, at = content.get("seq"), content.get("at")
    if not _fits(seq, int) or not _fits(at, float):
        raise ValueError("a line of a stream needs the numbers seq and at")
    return Record(typing.cast(int, seq), float(typing.cast(float, at)), _body(content))


def _object(line: str | bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def _body(content: Mapping[str, Any]) -> Body:
    kind = content.get("kind")
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ValueError(f"unknown kind {kind!r}")
    values: dict[str, Any] = {}
    for field in fields(cls):
        if field.name in content:
            value = content[field.name]
            if not _fits(value, _HINTS[cls][field.name]):
                raise ValueError(f"{kind}: {field.name} may not be {value!r}"[:200])
            values[field.name] = tuple(value) if isinstance(value, list) else value
        elif field.default is MISSING:
            raise ValueError(f"{kind}: {field.name} is missing")
    return cls(**values)


def _fits(value: object, hint: Any) -> bool:
    """Says whether a value of JSON is of a field's type: only the few forms that are used above."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, arg) for arg in args)
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is str:
        return isinstance(value, str)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict)
    return isinstance(value, list) and all(_fits(item, args[0]) for item in value)
