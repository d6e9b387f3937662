"""Signals that are answered in a way of their own within a block, and as before after it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

HURRY = "(once more: hurry; `slicebench reap` does what is left)"
"""What one more signal would do, for whoever sends a second one."""


_hurried = False


def hurried() -> bool:
    """Whether somebody who was told that things are being given back did not want to wait for it (`interrupting`)."""
    return _hurried


@contextmanager
def answered(numbers: Iterable[signal.Signals], answer: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Within, each of these signals calls `answer`, which may raise. In the main thread only: else ValueError."""
    before = {
        number: signal.signal(number, lambda got, frame: answer(signal.Signals(got))) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupting(
    say: Callable[[str], None], *, meanwhile: str = f"giving back what was made, a moment … {HURRY}"
) -> Iterator[None]:
    """Within, SIGTERM and SIGHUP end what is under way as Ctrl-C does, by KeyboardInterrupt, so that it cleans up.

    `say` tells of the signal at once: what is under way may take a while to let go. The next signal is only answered,
    by what is done `meanwhile`: what was made is being given back, say. One more ends that too.
    """
    global _hurried
    heard = 0

    def answer(number: signal.Signals) -> None:
        global _hurried
        nonlocal heard
        heard += 1
        _hurried = heard > 2
        # Whoever was interrupted within a line of his own cannot be given another: Python refuses it.
        with suppress(RuntimeError):
            if heard == 1:
                say(f"{number.name}: ending what is under way, a moment …")
            if heard == 2:
                say(meanwhile)
        if heard != 2:
            raise KeyboardInterrupt

    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as nohup has it
    hangup = () if outlives_terminal else (signal.SIGHUP,)
    try:
        with answered((signal.SIGINT, signal.SIGTERM, *hangup), answer):
            yield
    finally:
        _hurried = False
