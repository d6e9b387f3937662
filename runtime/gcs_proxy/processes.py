"""Several processes that serve the same sockets: they are begun, begun again when one dies, and ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from runtime.contract.errors import ExitCode
from runtime.gcs_proxy.observing import Log

TOLD = (signal.SIGTERM, signal.SIGINT)
"""Signals that mean that the proxy is to end."""
_WAITED_FOR = {*TOLD, signal.SIGCHLD}
_DEATHS, _WITHIN_S = 5, 60.0
"""So many deaths in so much time are no accident: then all end, for whoever watches over the proxy to see."""
_PATIENCE_S = 5.0


def block_signals() -> None:
    """From here on, signals wait for `run_several`: one that comes before it begins is not to be lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)


def run_several(count: int, work: Callable[[int, threading.Event], None], log: Log, grace_s: float) -> int:
    """Has `count` processes do `work(number, over)` until SIGTERM or SIGINT; returns the exit code.

    To be called where no thread runs, for they are forks, and with these signals blocked. `over` is set when this
    process is told to end, or is gone.
    """
    held, holding = os.pipe()  # its other end is closed when this process is gone, however that comes

    def begin(number: int) -> int:
        if pid := os.fork():
            return pid
        os.close(holding)
        _child(number, work, held)

    running = {begin(number): number for number in range(count)}
    died: deque[float] = deque(maxlen=_DEATHS)
    code = 0
    while signal.sigwait(_WAITED_FOR) == signal.SIGCHLD:
        for number, how in _ended(running):
            log.say("process died", process=number, how=how)
            died.append(time.monotonic())
            if len(died) == _DEATHS and died[-1] - died[0] < _WITHIN_S:
                code = int(ExitCode.INFRASTRUCTURE)
                log.say("giving up", why=f"{_DEATHS} processes died within {died[-1] - died[0]:.0f} s")
                break
            running[begin(number)] = number
        if code:
            break
    _end(running, grace_s)
    return code


def _child(number: int, work: Callable[[int, threading.Event], None], held: int) -> NoReturn:
    try:
        over = threading.Event()
        for told in TOLD:
            signal.signal(told, lambda *_: over.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_FOR)

        def wait_for_parent() -> None:
            os.read(held, 1)
            over.set()

        threading.Thread(target=wait_for_parent, daemon=True).start()
        work(number, over)
        os._exit(0)
    except BaseException:  # noqa: BLE001 whatever it is, this process is to end here, not in what its parent does
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(1)


def _ended(running: dict[int, int]) -> list[tuple[int, str]]:
    """Takes those that are gone out of `running`; returns their numbers, and how they ended."""
    gone = []
    for pid in list(running):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            gone.append((running.pop(pid), f"signal {-code}" if code < 0 else f"exit code {code}"))
    return gone


def _end(running: dict[int, int], grace_s: float) -> None:
    """Lets all end what is under way, and kills who takes too long."""
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s + _PATIENCE_S
    while running and (left := deadline - time.monotonic()) > 0:
        _ended(running)
        if running:
            signal.sigtimedwait({signal.SIGCHLD}, left)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
