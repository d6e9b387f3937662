"""What a run says while it goes: whole to run.log, to whoever listens here, and in a sampled stream to a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from runtime.contract.counting import counted
from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder
from tasks.cloud.waits import untold
from tasks.follow import Sampler
from tasks.stages.files import RUN_LOG

LINES_A_SECOND = 100
"""What Prefect's API takes without falling behind: at 500 a second it drains for minutes and stores lines twice."""

_WRITE_EVERY_S = 0.5

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("slicebench_listener", default=None)


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Within, every line of a flow called in this process also goes to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Narrator:
    """The `say` of a run. Any thread may call it; it must be closed so that run.log is whole.

    `log` gets a sampled stream of the lines.
    """

    def __init__(
        self, log: Callable[[str], None] = lambda line: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._listener = _listener.get()
        self._sampler = Sampler(LINES_A_SECOND, clock)
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._written = 0
        self._trouble = ""
        self._folder: Folder | None = None
        self._closing = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, name=RUN_LOG, daemon=True)

    def __call__(self, text: str) -> None:
        """Tells one line, or several with line feeds between."""
        with self._lock:
            self._lines += [f"{_now()} {line}\n" for line in text.splitlines()]
            if self._listener is not None:
                self._listener(text)
            if self._sampler.takes():
                self._tell_left_out()
                self._log(text)

    def write_to(self, folder: Folder) -> None:
        """From now on, and for what was said already, keeps run.log in the run's folder; a resumed run appends."""
        earlier = (folder.read(RUN_LOG) or b"").decode(errors="replace").splitlines(keepends=True)
        with self._lock:
            self._lines[:0] = earlier
            self._folder = folder
        self._writer.start()

    def close(self) -> None:
        """Writes what is left. A storage that fails now is told, and does not hide how the run ended."""
        self._closing.set()
        if self._folder is not None:
            self._writer.join()
            self._write(self._folder)
        with self._lock:
            self._tell_left_out()

    def _tell_left_out(self) -> None:
        if held := self._sampler.left_out():
            self._log(f"… {counted(held, 'line')} only in {RUN_LOG}")

    def _keep_writing(self) -> None:
        """A thread of its own, because a run that has just said something may then be silent for an hour."""
        assert self._folder is not None
        took = 0.0
        with untold():  # what is told of a wait is a line more to write
            # The file is written whole, so the longer that takes the more seldom it is done.
            while not self._closing.wait(max(_WRITE_EVERY_S, 20 * took)):
                before = time.monotonic()
                self._write(self._folder)
                took = time.monotonic() - before

    def _write(self, folder: Folder) -> None:
        with self._lock:
            lines = list(self._lines)
        if len(lines) == self._written:
            return
        try:
            folder.write(RUN_LOG, "".join(lines).encode())
            self._written, self._trouble = len(lines), ""
        except InfrastructureError as error:
            if str(error) != self._trouble:  # else it was told, and is tried again twice a second
                self._trouble = str(error)
                self._log(f"{RUN_LOG} lacks its last lines: {error}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
