"""One watch within a link: that it catches up whenever it is asked to, on a link that goes step by step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tasks.cloud.kubernetes_kinds import POD
from tasks.cloud.kubernetes_link import Patience, Silence
from tasks.cloud.kubernetes_watch import Change, Query, Watch


class Connection:
    """Gives nothing, for ever, until it is closed."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    def close(self, silence: str = "") -> None:
        self._over.set()

    async def head(self, at: str, until: str) -> None:
        """Waits for the head of the answer; `until`: what comes of it at once."""
        if at == until:
            await self._over.wait()
            raise Silence("closed")

    async def body(self) -> AsyncIterator[bytes]:
        await self._over.wait()
        raise Silence("closed")
        yield b""


class Link:
    """Lists one pod more each time. Of its first watch `at` says what it takes its time for."""

    patience = Patience()

    def __init__(self, at: str) -> None:
        self.at, self.lists, self.there, self.go_on = at, 0, asyncio.Event(), asyncio.Event()

    def trial(self) -> Any:
        class Trial:
            failures = 0

            def passed(self) -> None:
                pass

        return Trial()

    async def json(self, doing: str, path: str, params: Any) -> Any:
        self.lists += 1
        names = [f"p{number}" for number in range(self.lists)]
        pods = [{"metadata": {"uid": name, "name": name, "resourceVersion": "1"}} for name in names]
        return {"metadata": {"resourceVersion": str(self.lists)}, "items": pods}

    @asynccontextmanager
    async def stream(
        self, doing: str, path: str, params: Any, *, silence_s: float, opened: Callable[[Any], None]
    ) -> AsyncIterator[Connection]:
        at, self.at = self.at, ""
        connection = Connection()
        if at == "connecting":
            self.there.set()
            await self.go_on.wait()
        opened(connection)
        if at == "answering":
            self.there.set()
        await connection.head(at, "answering")
        if at == "reading":
            self.there.set()
        yield connection


@pytest.mark.parametrize("at", ["connecting", "answering", "reading"])
def test_a_watch_catches_up_whatever_it_is_at(at: str) -> None:
    told: list[str] = []

    async def put(changes: Sequence[Change]) -> None:
        told.extend(change.object["metadata"]["name"] for change in changes)

    async def main() -> None:
        link: Any = Link(at)
        watch = Watch(link, Query(POD, "default"), put)
        running = asyncio.create_task(watch.run())
        await link.there.wait()
        catching_up = asyncio.create_task(watch.catch_up())
        await asyncio.sleep(0)  # now it has asked
        link.go_on.set()
        await asyncio.wait_for(catching_up, 60)
        running.cancel()

    asyncio.run(main())
    assert told == ["p0", "p1"]
