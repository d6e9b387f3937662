"""Several things at once, a bounded number, so that one that takes long holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def together(jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
    """Does all jobs, `at_once` at a time, begun in their order; returns what each returned, in that order.

    Raises the first error once all are through. An interrupt ends at once: the threads are killed with the process.
    """
    results: dict[int, T] = {}
    errors: dict[int, Exception] = {}
    waiting = iter(enumerate(jobs))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                turn = next(waiting, None)
            if turn is None:
                return
            place, job = turn
            try:
                results[place] = job()
            except Exception as error:  # noqa: BLE001 (raised again below, in the caller's thread)
                errors[place] = error

    # Each in what surrounds the caller: what is waited for in there is part of what the caller waits for.
    threads = [
        threading.Thread(target=copy_context().run, args=(work,), daemon=True)
        for _ in range(min(at_once, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(jobs))]
