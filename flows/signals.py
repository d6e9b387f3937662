"""Signals that are answered in a way of their own within a block, and as before after it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


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
def interrupting(say: Callable[[str], None]) -> Iterator[None]:
    """Within, SIGTERM and SIGHUP end what is under way as Ctrl-C does, by KeyboardInterrupt, so that it cleans up.

    The next signal is only answered, by `say`: what was made is being given back. One more ends that too.
    """
    heard = 0

    def answer(number: signal.Signals) -> None:
        nonlocal heard
        heard += 1
        if heard == 2:
            say(
                "giving back what was made, a moment … (once more: hurry; `slicebench reap` does what is left)"
            )
            return
        raise KeyboardInterrupt

    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as nohup has it
    hangup = () if outlives_terminal else (signal.SIGHUP,)
    with answered((signal.SIGINT, signal.SIGTERM, *hangup), answer):
        yield
