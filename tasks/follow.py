"""Merges what workers say, from any target, into log files, progress and a stream that people can read.

with Follower(logs, say) as follower:
    exits = follower.follow(target.follow(ref, follower.cursors()))
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

from runtime.contract.counting import counted
from runtime.contract.errors import InfrastructureError
from runtime.contract.redaction import Redaction
from tasks.targets.types import Event, Exited, LogLine, Progress, SidecarLine, State


class Follower:
    """Writes `logs/worker-NNNN.log`, tells progress, and says a sample of the lines.

    A follower that is killed at any moment loses and repeats nothing in the log files: beside each lies
    how far it is complete, written after it, and what was appended since is cut off and read again. Use
    it as a context; a second one on the same folder is refused with InfrastructureError. What workers say is hostile
    and may hold secrets: nothing of it gets further than here unredacted.
    """

    def __init__(
        self,
        logs: Path,
        say: Callable[[str], None],
        on_progress: Callable[[Progress], None] = lambda progress: None,
        *,
        on_state: Callable[[State], None] = lambda state: None,
        redact: Redaction = Redaction(),  # noqa: B008 (it has no state)
        sidecars: Callable[[int], Path] | None = None,
        lines_per_s: int = 100,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`logs` is a folder on this machine; at most `lines_per_s` lines of the workers go to `say`. `sidecars`: where
        the log of what stands beside a worker lies; not given: in `logs`.
        """
        self._logs, self._say = logs, say
        self._on_progress, self._on_state, self._redact = on_progress, on_state, redact
        self._sampler = Sampler(lines_per_s, clock)
        self._clock = clock
        self._files: dict[int, _LogFile] = {}
        self._sidecars: dict[int, _LogFile] = {}
        self._sidecar_file = sidecars or (lambda worker: logs / f"sidecar-{worker:04d}.log")
        self._saved_at = clock()
        logs.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(logs / ".follower", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise InfrastructureError(
                f"{logs} is being written by another process that follows this run"
            ) from error
        for path in logs.glob("worker-*.log"):
            number = path.stem.removeprefix("worker-")
            if number.isdigit():
                self._files[int(number)] = _LogFile(path)
        self._point = max((file.point for file in self._files.values()), default=-1)

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Saves how far the files are complete, and lets others follow."""
        for file in self._all_files():
            file.close()
        self._files.clear()
        self._sidecars.clear()
        os.close(self._lock)

    def cursors(self) -> dict[int, int]:
        """Returns by worker the cursor after which to go on; a worker that has no log yet begins at 0."""
        return {worker: file.cursor for worker, file in self._files.items()}

    def follow(self, events: Iterable[Event]) -> dict[int, Exited]:
        """Takes events to the end; returns how each worker's supervisor ended, redacted as all of them.

        Raises OSError when a log cannot be written.
        """
        exits: dict[int, Exited] = {}
        for raw in events:
            event = self._redact.record(raw)
            self._take(event)
            if isinstance(event, Exited):
                exits[event.worker] = event
            if self._clock() - self._saved_at > 0.5:
                self._save()
        self._tell_left_out()
        self._save()
        return exits

    def _take(self, event: Event) -> None:
        match event:
            case LogLine():
                self._file(event.worker).append(event.text, event.cursor)
                self._sample(event)
            case SidecarLine():
                self._sidecar(event.worker).append(event.text, event.cursor)
            case Progress():
                self._file(event.worker).passed(event.seq, event.point)
                self._announce(event)
                self._on_progress(event)
            case Exited():
                if event.code or event.cause:
                    self._say(f"worker {event.worker} ended with code {event.code}: {event.cause}")
            case State():
                details = "; ".join(part for part in (event.reason, event.evidence) if part)
                self._say(f"{event.state}: {details}" if details else event.state)
                self._on_state(event)

    def _announce(self, progress: Progress) -> None:
        """Says of each point once, when the first worker begins it, which one it is."""
        if progress.point > self._point:
            self._point = progress.point
            self._say(f"benchmark {progress.point + 1} of {progress.points}: {progress.benchmark}")

    def _sample(self, event: LogLine) -> None:
        if not self._sampler.takes():
            return
        self._tell_left_out()
        lines = event.text.splitlines() or [""]
        self._say("\n".join(f"[{event.worker}] {line}" for line in lines))

    def _tell_left_out(self) -> None:
        if count := self._sampler.left_out():
            self._say(f"… {counted(count, 'line')} left out here; all are in {self._logs}")

    def _file(self, worker: int) -> _LogFile:
        if worker not in self._files:
            self._files[worker] = _LogFile(self._logs / f"worker-{worker:04d}.log")
        return self._files[worker]

    def _sidecar(self, worker: int) -> _LogFile:
        if worker not in self._sidecars:
            self._sidecars[worker] = _LogFile(self._sidecar_file(worker))
        return self._sidecars[worker]

    def _all_files(self) -> list[_LogFile]:
        return [*self._files.values(), *self._sidecars.values()]

    def _save(self) -> None:
        self._saved_at = self._clock()
        for file in self._all_files():
            file.save()


class Sampler:
    """Lets a bounded number of lines through in every second, wherever that begins, and counts the rest.

    Where lines were held back, the next one takes two places: one is for the line that says so.
    """

    def __init__(self, lines_per_s: int, clock: Callable[[], float]) -> None:
        """`lines_per_s` is at least 2."""
        self._clock = clock
        self._passed_at: deque[float] = deque([-math.inf] * lines_per_s, maxlen=lines_per_s)
        self._dropped = 0

    def takes(self) -> bool:
        """Says whether the next line goes through, after one that tells `left_out` if that is not 0."""
        now, places = self._clock(), 2 if self._dropped else 1
        if now - self._passed_at[places - 1] < 1.0:
            self._dropped += 1
            return False
        self._passed_at.extend([now] * places)
        return True

    def left_out(self) -> int:
        """Returns how many lines were held back since the last call."""
        count, self._dropped = self._dropped, 0
        return count


class _LogFile:
    """A log and, beside it, the cursor and size up to which it is complete, and the point its worker was in by then."""

    def __init__(self, path: Path) -> None:
        self._mark = path.with_name(f".{path.name}.cursor")
        size, self.cursor, self.point = self._read_mark()
        self._file: IO[bytes] = path.open("ab")
        if path.stat().st_size < size:
            size, self.cursor, self.point = 0, 0, -1  # somebody cut the log: begin again
        self._file.truncate(size)
        self._saved = self.cursor

    def append(self, text: str, cursor: int) -> None:
        if cursor > self.cursor:
            self._file.write(text.encode("utf-8", "replace") + b"\n")
            self.cursor = cursor

    def passed(self, cursor: int, point: int) -> None:
        self.cursor, self.point = max(self.cursor, cursor), max(self.point, point)

    def save(self) -> None:
        self._file.flush()
        if self.cursor == self._saved:
            return
        size = os.fstat(self._file.fileno()).st_size
        content = json.dumps({"cursor": self.cursor, "size": size, "point": self.point})
        new = self._mark.with_name(f"{self._mark.name}.new")
        new.write_text(content)
        new.replace(self._mark)
        self._saved = self.cursor

    def close(self) -> None:
        self.save()
        self._file.close()

    def _read_mark(self) -> tuple[int, int, int]:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            mark = json.loads(self._mark.read_text())
            return int(mark["size"]), int(mark["cursor"]), int(mark.get("point", -1))
        return 0, 0, -1
