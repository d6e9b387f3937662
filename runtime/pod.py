"""What a pod's container runs: `python -m runtime.pod` fetches a worker's errand and watches over its supervisor.

It may be the first process of its container: signals go on to the supervisor at once, orphans are collected, and its
exit code is the supervisor's. What the supervisor says is on stdout, one JSON record a line (contract/progress.py).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType

from runtime.contract.errors import ExitCode, SlicebenchError
from runtime.contract.pod import TOKEN_VARIABLE
from runtime.contract.progress import Body, Exited, Log, encode
from runtime.pods.errand import Errand, fetch
from runtime.pods.watching import HEAR_EVERY_S, Speech, hear, leave
from runtime.supervision.processes import reap_orphans
from runtime.supervision.stream import Stream

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_QUICK_S, _SLOW_S = 0.02, 0.2
"""How long until it is looked again what the supervisor said: after news, after silence. Its end is seen at once."""


class _Told(BaseException):
    """It was told to stop before there was a supervisor that could be told."""


class Signals:
    """Hands signals on, from the moment it is made; before there is a supervisor they end this process, by _Told."""

    def __init__(self) -> None:
        self.told: signal.Signals | None = None
        self._hold = False
        self._supervisor: subprocess.Popen[bytes] | None = None
        for number in _STOPS:
            signal.signal(number, self._on_signal)

    def hold(self) -> None:
        """From now on they wait for the supervisor; without one they are nobody's."""
        self._hold = True

    def go_to(self, supervisor: subprocess.Popen[bytes]) -> None:
        """From now on they are the supervisor's, and so is one that waits."""
        self._supervisor = supervisor
        if self.told is not None:
            self._send(self.told)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.told = signal.Signals(number)
        if self._supervisor is not None:
            self._send(self.told)
        elif not self._hold:
            raise _Told

    def _send(self, number: signal.Signals) -> None:
        assert self._supervisor is not None
        with contextlib.suppress(ProcessLookupError):
            self._supervisor.send_signal(number)


def main() -> int:
    """Does the errand; returns the exit code."""
    signals = Signals()
    code, cause = int(ExitCode.INTERRUPTED), "told to stop before anything began"
    with contextlib.suppress(_Told), tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        try:
            errand = fetch(os.environ, Path(folder))
            signals.hold()
            return _supervise(errand, signals)
        except SlicebenchError as error:
            code, cause = error.exit_code, str(error)
        except OSError as error:
            code, cause = ExitCode.INFRASTRUCTURE, f"the pod cannot begin: {error}"
    signals.hold()
    last_words: tuple[Body, ...] = (Log(cause, "supervisor"), Exited(code, cause))
    for seq, body in enumerate(last_words, 1):
        print(encode(body, seq=seq, at=time.time()), flush=True)
    return code


def _supervise(errand: Errand, signals: Signals) -> int:
    """Runs the supervisor to its end; returns its exit code, as a shell does where a signal ended it."""
    ended = threading.Event()
    if errand.renewal is not None:
        what = (errand.run, errand.renewal, errand.renewed, HEAR_EVERY_S, ended)
        threading.Thread(target=hear, args=what, daemon=True).start()
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "runtime.supervise", str(errand.job)],
        env={**environ, "PYTHONPATH": str(errand.code)},
        cwd=errand.stream.parent,  # Python looks there first: it must hold no other slicebench
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        start_new_session=True,
    )
    signals.go_to(supervisor)
    speech = Speech(errand.stream, sys.stdout.fileno())
    _listen(speech, supervisor)
    ended.set()
    code = _last_word(errand, supervisor.returncode, signals.told)
    speech.go_on()
    leave(errand)
    return code


def _listen(speech: Speech, supervisor: subprocess.Popen[bytes]) -> None:
    """Says what the supervisor says until it has ended, and collects what dies meanwhile."""
    gone, pause_s = os.pidfd_open(supervisor.pid), _QUICK_S
    try:
        while supervisor.poll() is None:
            pause_s = _QUICK_S if speech.go_on() else min(_SLOW_S, pause_s * 1.5)
            reap_orphans(supervisor.pid)
            select.select([gone], [], [], pause_s)
    finally:
        os.close(gone)


def _last_word(errand: Errand, code: int, told: signal.Signals | None) -> int:
    """Says in the supervisor's place how it ended, where it could not: it was killed, or never came to speak.

    Returns the exit code: the supervisor's, as a shell tells it, or INTERRUPTED where the signal found it not yet
    listening.
    """
    left = code if code >= 0 else 128 - code
    stream = Stream(errand.stream, on_trouble=lambda cause: print(cause, file=sys.stderr, flush=True))
    if stream.last is not None and isinstance(stream.last.body, Exited):
        return left
    if told is not None:
        stream.close(Exited(ExitCode.INTERRUPTED, f"told to stop ({told.name})"))
        return int(ExitCode.INTERRUPTED)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    stream.close(Exited(ExitCode.INFRASTRUCTURE, f"the supervisor {how}, without a last word"))
    return left


if __name__ == "__main__":
    sys.exit(main())
