"""What a run left behind, read line by line with its place: markers, causes, logs, and the streams of its workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.contract import progress
from runtime.contract.counting import counted, which
from runtime.contract.errors import Place
from runtime.contract.names import STREAM_FILE
from tasks.cloud.storage import Folder, is_there, read_json
from tasks.explain.scene import Line, Seen
from tasks.stages.files import ATTEMPTS_FILE, OUTCOME_FILE, REQUEST_FILE, RUN_LOG
from tasks.stages.logs import worker_logs
from tasks.targets.streams import SUPERVISOR

_LONGEST_LOG = 500
"""Lines from the end of each log that are looked at."""

_LONGEST_LINE = 1000

_STACKS = f"{SUPERVISOR}stacks of the worker"


def broken(folder: Folder) -> list[str]:
    """Says which of the files that tell how a run went are there but cannot be read."""
    names = [name for name in (REQUEST_FILE, ATTEMPTS_FILE, OUTCOME_FILE) if is_there(folder, name)]
    return [
        f"what {folder.uri}/{name} says: it is not whole JSON, as after a full disk"
        for name in names
        if read_json(folder, name) is None
    ]


def causes(folder: Folder) -> list[Line]:
    """Returns why the run and its latest attempt ended as they did, by slicebench's own account."""
    told: list[tuple[str, str]] = []
    outcome, attempts = read_json(folder, OUTCOME_FILE), read_json(folder, ATTEMPTS_FILE)
    if isinstance(outcome, dict):
        told += [(OUTCOME_FILE, str(cause)) for cause in outcome.get("causes") or ()]
    if isinstance(attempts, list) and attempts and attempts[-1].get("cause"):
        told.append((ATTEMPTS_FILE, str(attempts[-1]["cause"])))
    return [Line(_place_of(folder, name, text), text, said=True) for name, text in told]


def run_log(folder: Folder, last: int = _LONGEST_LOG) -> list[Line]:
    """Returns the last lines that the run said."""
    return _tail(folder, RUN_LOG, last)


def logs(folder: Folder) -> list[Line]:
    """Returns the last lines of each worker's log of the latest attempt."""
    return [line for name in worker_logs(folder).values() for line in _tail(folder, name, _LONGEST_LOG)]


def stacks(lines: Sequence[Line]) -> list[Place]:
    """Returns where stack dumps of workers begin."""
    return [line.place for line in lines if line.text.startswith(_STACKS)]


def workers(folder: Folder) -> list[Seen]:
    """Returns what each worker of the latest attempt was last seen doing, by the streams on this machine.

    Empty where the workers ran on other hosts.
    """
    attempts = read_json(folder, ATTEMPTS_FILE)
    ref = attempts[-1].get("ref") if isinstance(attempts, list) and attempts else None
    if not isinstance(ref, dict) or ref.get("kind") != "local":
        return []
    streams = [Path(scratch) / STREAM_FILE for scratch in ref.get("scratch", ())]
    found = [last_seen(worker, _stream(path)) for worker, path in enumerate(streams)]
    return [seen for seen in found if seen]


def last_seen(worker: int, stream: Iterable[Line]) -> Seen | None:
    """Returns what a stream says last of its worker's way; None when it says nothing."""
    seen = None
    for line in stream:
        try:
            record = progress.parse_record(line.text)
        except ValueError:  # a line cut short, or of a newer version
            continue
        if words := _step(record.body):
            seen = Seen(worker, words[0], words[1], record.at, replace(line, text=line.text[:300]))
    return seen


def _stream(path: Path) -> Iterator[Line]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        yield Line(Place(str(path), number), line)


def _step(body: progress.Body) -> tuple[str, str] | None:
    """Returns the step that a record leads a worker to, and its words; None for what leaves it where it is."""
    match body:
        case progress.Started():
            return "started", f"started (session {body.session}, pid {body.pid}), not yet joining"
        case progress.Init(phase="begin"):
            return "joining", "joining the others in jax.distributed"
        case progress.Init():
            return (
                "joined",
                f"joined: {counted(body.process_count or 0, 'worker')}, {counted(body.device_count or 0, 'device')}",
            )
        case progress.Operation(phase="begin"):
            where = f"{which(body.point, body.points, body.benchmark)}, repeat {body.repeat + 1}"
            return "operation", f"in {body.operation} of {where}"
        case progress.Operation():
            where = which(body.point, body.points, body.benchmark)
            return "point", f"after {body.operation} of {where}, repeat {body.repeat + 1}"
        case progress.PointPhase(phase="begin"):
            where = which(body.point, body.points, body.benchmark)
            return "point", f"in {where}, before its first operation"
        case progress.PointPhase():
            where = which(body.point, body.points, body.benchmark)
            return "joined", f"after {where}: {body.status}"
        case progress.Done():
            return "done", f"through its suite: {counted(body.points, 'benchmark')}, {body.failed} failed"
        case progress.WorkerExited():
            return "exited", f"ended with code {body.code}" + (f": {body.cause}" if body.cause else "")
        case progress.Exited():
            return "exited", f"its supervisor ended with code {body.code}" + (
                f": {body.cause}" if body.cause else ""
            )
    return None


def _tail(folder: Folder, name: str, last: int) -> list[Line]:
    lines = (folder.read(name) or b"").decode(errors="replace").splitlines()
    first = max(0, len(lines) - last)
    at = f"{folder.uri}/{name}"
    return [
        Line(Place(at, number), text[:_LONGEST_LINE])
        for number, text in enumerate(lines[first:], start=first + 1)
    ]


def _place_of(folder: Folder, name: str, text: str) -> Place:
    """Returns the line of a JSON file in which a string stands."""
    content = (folder.read(name) or b"").decode(errors="replace").splitlines()
    written = json.dumps(text)
    number = next((n for n, line in enumerate(content, start=1) if written in line), None)
    return Place(f"{folder.uri}/{name}", number)


def markers(
    folder: Folder, stages: Sequence[str], folder_name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each stage that has finished, with what it wrote down."""
    for stage in stages:
        marker = read_json(folder, f"{folder_name}/{stage}.json")
        if isinstance(marker, dict):
            yield stage, marker
