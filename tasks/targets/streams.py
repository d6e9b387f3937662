"""Reads stream files: the records as they come, from several workers, as the events that targets yield."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from runtime.contract import progress
from runtime.contract.counting import counted, which
from runtime.contract.progress import Record
from tasks.targets.types import Event, Exited, LogLine, Progress

LOST = -9
"""Exit code of a supervisor that went away without its last record: it was killed, or its host was."""

SILENT = -10
"""Exit code of a supervisor whose host did not answer for so long that nothing can be running there any more."""

SUPERVISOR = "supervisor: "
"""How lines begin that supervisors say, in logs and on terminals."""

_POLL_S = 0.1
_CHUNK = 1 << 20


class Tail:
    """Reads the records of a stream file as they come. `read(offset, size)` returns the bytes there.

    A record is taken when its line is whole: what a supervisor that died left torn is cut off by the
    next one.
    """

    def __init__(self, read: Callable[[int, int], bytes], after: int) -> None:
        self._read, self._after = read, after
        self._offset = 0
        self._chunk = _CHUNK
        self.seq = 0

    def records(self) -> Iterator[Record]:
        """Yields what is there and was not yielded, without waiting for more."""
        while True:
            data = self._read(self._offset, self._chunk)
            end = data.rfind(b"\n") + 1
            if end == 0:
                if len(data) < self._chunk:
                    return
                self._chunk *= 4  # one line that is longer
                continue
            self._offset += end
            self._chunk = _CHUNK
            for line in data[: end - 1].split(b"\n"):
                record = self._parse(line)
                self.seq = record.seq
                if record.seq > self._after:
                    yield record

    def _parse(self, line: bytes) -> Record:
        try:
            return progress.parse_record(line)
        except ValueError as error:
            text = f"a damaged record ({error}): {line[:200].decode('utf-8', 'replace')}"
            return Record(self.seq + 1, time.time(), progress.Log(text, "supervisor"))


def read_stream(path: Path, after_seq: int, alive: Callable[[], bool]) -> Iterator[Record]:
    """Yields the records after `after_seq` of a stream on this machine until its supervisor has ended.

    The file need not be there yet. When `alive` says no and no Exited was written, an Exited with code
    LOST ends the iteration; it carries the last seq, so that nothing is skipped should the stream go on
    later.
    """
    tail = Tail(_reader(path), after_seq)
    while True:
        living = alive()  # asked before reading: what was written before it died is read
        for record in tail.records():
            yield record
            if isinstance(record.body, progress.Exited):
                return
        if not living:
            yield Record(tail.seq, time.time(), progress.Exited(LOST, _lost(path)))
            return
        time.sleep(_POLL_S)


def follow_streams(
    paths: Mapping[int, Path], since: Mapping[int, int], alive: Callable[[int], bool]
) -> Iterator[Event]:
    """Yields the events of several streams (worker → path), each after its cursor, until all have ended.

    One thread polls all of them; `alive` says whether a worker's supervisor still runs.
    """
    tails = {worker: Tail(_reader(path), since.get(worker, 0)) for worker, path in paths.items()}
    while tails:
        quiet = True
        for worker, tail in list(tails.items()):
            living = alive(worker)
            ended = False
            for record in tail.records():
                quiet = False
                ended = ended or isinstance(record.body, progress.Exited)
                yield event_of(worker, record)
            if not ended and not living:
                ended = True
                yield Exited(worker, LOST, _lost(paths[worker]))
            if ended:
                del tails[worker]
        if quiet and tails:
            time.sleep(_POLL_S)


def event_of(worker: int, record: Record) -> Event:
    """Returns the event that a record of a worker's stream stands for. Every record is one event."""
    seq = record.seq
    match record.body:
        case progress.Operation() as body:
            return Progress(
                worker, seq, body.point, body.points, body.benchmark, body.repeat, body.operation, body.phase
            )
        case progress.PointPhase() as body:
            return Progress(worker, seq, body.point, body.points, body.benchmark, 0, "", body.phase)
        case progress.Exited() as body:
            return Exited(worker, body.code, body.cause)
        case progress.Log() as body:
            return LogLine(worker, seq, _said(body))
        case body:
            return LogLine(worker, seq, f"{SUPERVISOR}{_words(body)}", body)


def _said(log: progress.Log) -> str:
    """Returns a line with who said it: none of user code's may read as one of a supervisor, which is believed."""
    if log.stream == "supervisor":
        return SUPERVISOR + log.text
    return f"| {log.text}" if log.text.startswith(SUPERVISOR) else log.text


def _reader(path: Path) -> Callable[[int, int], bytes]:
    def read(offset: int, size: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return b""

    return read


def _lost(path: Path) -> str:
    return f"the supervisor is gone without a last word: it was killed, or its host was; it wrote to {path}"


def _where(step: progress.Step) -> str:
    return f"{which(step.point, step.points)}, repeat {step.repeat + 1}"


def _words(body: progress.Body) -> str:
    match body:
        case progress.Init(phase="begin"):
            return "the worker joins the others"
        case progress.Init():
            devices = counted(body.device_count or 0, "device")
            return f"the worker has joined: {counted(body.process_count or 0, 'worker')}, {devices}"
        case progress.Step(state="begun"):
            return f"step {body.step} of {_where(body)}, is being saved"
        case progress.Step(state="trained"):
            return f"step {body.step} of {_where(body)}, is done"
        case progress.Step(state="saved"):
            return f"step {body.step} is saved"
        case progress.Step():
            return f"it goes on from step {body.step} of {_where(body)}"
        case progress.Done():
            return f"the worker is through {counted(body.points, 'benchmark')}, {body.failed} failed"
        case progress.Started():
            return f"session {body.session} started at {which(body.first_point)} (pid {body.pid})"
        case progress.Deadline():
            where = f" in {body.operation}" if body.operation else ""
            named = "workers " if len(body.stragglers) > 1 else "worker "
            named += ", ".join(str(worker) for worker in body.stragglers)
            what = "benchmark" if body.what == "point" else body.what
            return f"deadline of {body.limit_s:g} s for {what} passed{where}; held up by {named}"
        case progress.Stacks():
            return f"stacks of the worker:\n{body.text}"
        case progress.WorkerExited():
            return f"the worker of session {body.session} has ended" + (
                f": {body.cause}" if body.cause else ""
            )
        case _:
            return str(body)
