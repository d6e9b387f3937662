"""The loop of a controller: looks at what changed, one key after the other, and again after a while where asked."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Change, Key

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_RETRY_S = 0.2
_DOWN_S = 0.05


class Runner:
    """One controller's work queue."""

    def __init__(
        self,
        world: World,
        name: str,
        keys_of: Callable[[Change], Iterable[Key]],
        reconcile: Callable[[Key], float | None],
    ) -> None:
        """Watches the store; `reconcile` returns after how many seconds it wants to see the key again, if so."""
        self._world, self._name, self._keys_of, self._reconcile = world, name, keys_of, reconcile
        self._queue: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._later: dict[Key, asyncio.TimerHandle] = {}
        world.store.subscribe(self._changed)

    def add(self, key: Key) -> None:
        """Asks for a look at a key."""
        self._queue[key] = None
        self._wake.set()

    def _changed(self, change: Change) -> None:
        for key in self._keys_of(change):
            self.add(key)

    def _add_after(self, key: Key, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._later.get(key)
        if waiting and loop.time() < waiting.when() <= loop.time() + seconds:
            return
        if waiting:
            waiting.cancel()
        self._later[key] = loop.call_later(seconds, self.add, key)

    async def run(self) -> None:
        """Works until it is cancelled; a controller that is down keeps its queue."""
        while True:
            await self._wake.wait()
            while not self._world.runs(self._name):
                await asyncio.sleep(_DOWN_S)
            await asyncio.sleep(self._world.settings.pace_s)
            self._wake.clear()
            while self._queue and self._world.runs(self._name):
                key = next(iter(self._queue))
                del self._queue[key]
                self._one(key)
                await asyncio.sleep(0)
            if self._queue:
                self._wake.set()

    def _one(self, key: Key) -> None:
        try:
            again = self._reconcile(key)
        except Refused:
            again = _RETRY_S
        except Exception:  # noqa: BLE001 - a controller goes on, and tests see what went wrong
            traceback.print_exc(file=sys.stderr)
            again = 1.0
        if again is not None:
            self._add_after(key, max(0.001, again))
