"""What asynchronous readers bring, for a plain loop: they run in a thread and wait while their reader lags behind."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Funnel(Generic[Item]):
    """Hands items from the readers to the iterator, in order. `capacity`: how many may wait to be taken."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Item] = deque()
        self._news = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._space = asyncio.Event()
        self._wanting = False

    async def put(self, items: Sequence[Item]) -> None:
        """Adds items, once there is space: one reader after the other, so that at most one exceeds it."""
        if not items:
            return
        async with self._turn:
            while True:
                with self._news:
                    if len(self._items) < self._capacity:
                        self._items.extend(items)
                        self._news.notify()
                        return
                    self._wanting = True
                    self._space.clear()
                await self._space.wait()

    def put_now(self, item: Item) -> None:
        """Adds an item whether there is space or not."""
        with self._news:
            self._items.append(item)
            self._news.notify()

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes; the iterator raises the error, once all is taken."""
        with self._news:
            self._ended, self._error = True, error
            self._news.notify()

    def take(self) -> Iterator[Item]:
        """Yields the items until the end."""
        while True:
            with self._news:
                while not self._items and not self._ended:
                    self._news.wait()
                taken, self._items = self._items, deque()
                wanting, self._wanting = self._wanting, False
                if not taken and self._error is not None:
                    raise self._error
            if not taken:
                return
            if wanting and self._loop is not None:
                self._loop.call_soon_threadsafe(self._space.set)
            yield from taken

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Says in which loop the readers run."""
        self._loop = loop


def iterate(
    main: Callable[[Funnel[Item]], Coroutine[None, None, None]],
    *,
    capacity: int = 10_000,
    name: str = "follow",
) -> Iterator[Item]:
    """Yields what `main` puts into the funnel it is given, until it returns; raises what it raises.

    It runs in a thread of its own, and is cancelled when the iterator is closed.
    """
    funnel: Funnel[Item] = Funnel(capacity)
    started: threading.Event = threading.Event()
    running: list[asyncio.Task[None]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        funnel.bind(loop)
        task = asyncio.create_task(main(funnel))
        running.append(task)
        started.set()
        await task

    def run() -> None:
        try:
            asyncio.run(watched())
        except asyncio.CancelledError:
            funnel.end(None)
        except BaseException as error:  # noqa: BLE001 (raised where the items are taken)
            funnel.end(_first(error))
        else:
            funnel.end(None)
        finally:
            started.set()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield from funnel.take()
    finally:
        started.wait()
        if thread.is_alive() and running:
            with suppress(RuntimeError):  # it ended this moment, and its loop is closed
                running[0].get_loop().call_soon_threadsafe(running[0].cancel)
        thread.join()


def _first(error: BaseException) -> BaseException:
    """Returns the first error of those that a group of tasks ended with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
