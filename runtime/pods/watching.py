"""What a container does beside its supervisor: says its stream line by line, hears renewals, leaves the stream."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path

from runtime.contract.errors import InfrastructureError, SlicebenchError
from runtime.contract.pod import stream_file
from runtime.output import publish
from runtime.pods.errand import Errand
from runtime.pods.folder import RunFolder

HEAR_EVERY_S = 5.0
"""How often the run's folder is asked whether the run lives; a lease is overdue after a minute without."""

_LEAVE_S = 15.0
_CHUNK = 1 << 20


class Speech:
    """Copies whole lines of a growing file to a file descriptor."""

    def __init__(self, path: Path, out: int) -> None:
        self._path, self._out = path, out
        self._offset = 0

    def go_on(self) -> bool:
        """Copies what is new; returns whether anything was."""
        spoke = False
        while lines := self._lines():
            self._offset += len(lines)
            spoke = True
            while lines:
                try:
                    lines = lines[os.write(self._out, lines) :]
                except OSError:  # nobody listens: the run's folder gets it all at the end
                    break
        return spoke

    def _lines(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                size = _CHUNK
                while True:
                    file.seek(self._offset)
                    data = file.read(size)
                    end = data.rfind(b"\n") + 1
                    if end or len(data) < size:
                        return data[:end]
                    size *= 4  # one line that is longer
        except FileNotFoundError:
            return b""


def hear(run: RunFolder, name: str, touched: Path, every_s: float, ended: threading.Event) -> None:
    """Touches a file whenever another in the run's folder is seen to have changed, until `ended`.

    Only the supervisor judges, by this host's clock: a storage that does not answer is a run that is not heard.
    """
    last: bytes | None = None
    while not ended.is_set():
        with contextlib.suppress(InfrastructureError, OSError):
            now = run.read(name)
            if now is not None and now != last:
                last = now
                os.utime(touched)
        ended.wait(every_s)


def leave(errand: Errand) -> None:
    """Copies the stream into the run's folder; a storage that takes too long is not waited for.

    Who never heard which attempt it was has no place of its own there, and writes over nobody's.
    """

    def copy() -> None:
        try:
            place = Path(stream_file(errand.told or errand.attempt, errand.worker))
            if errand.told is None and errand.run.read(str(place)) is not None:
                return
            apart = errand.folder / "leave"
            apart.mkdir()
            shutil.copy2(errand.stream, apart / place.name)
            publish(apart, errand.run.uri, str(place.parent))
        except (SlicebenchError, OSError) as error:
            print(f"what was said here is not kept in the run's folder: {error}", file=sys.stderr, flush=True)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    thread.join(_LEAVE_S)
