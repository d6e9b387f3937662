"""Watches: every version after a given one, selected, with bookmarks, and 410 where the history does not reach back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import orjson

from tests.cloud.kubernetes import refusals
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.selectors import Test
from tests.cloud.kubernetes.store import Change, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


async def stream(world: World, call: Call, cut: asyncio.Event) -> AsyncIterator[bytes]:
    """Yields the lines of a watch until its time is over, or until it is cut."""
    queue: asyncio.Queue[Change] = asyncio.Queue()
    kind = call.resource.qualified

    def listen(change: Change) -> None:
        if change.key[0] == kind:
            queue.put_nowait(change)

    selected = call.selection()
    stop = world.store.subscribe(listen)
    try:
        start = call.query.get("resourceVersion", "")
        if start not in ("", "0") and int(start) < world.store.oldest:
            yield _line("ERROR", refusals.expired(start, world.store.oldest).status())
            return
        for line in _first(world, call, selected, start):
            yield line
        async for line in _later(world, call, selected, queue, cut):
            yield line
    finally:
        stop()


def _first(world: World, call: Call, selected: Test, start: str) -> list[bytes]:
    kind = call.resource.qualified
    if start in ("", "0"):
        return [_line("ADDED", shown(call, one)) for one in world.store.list(kind) if selected(one)]
    missed = [one for one in world.store.history if one.rv > int(start) and one.key[0] == kind]
    return [line for one in missed if (line := told(call, one, selected))]


async def _later(
    world: World, call: Call, selected: Test, queue: asyncio.Queue[Change], cut: asyncio.Event
) -> AsyncIterator[bytes]:
    ends = time.monotonic() + (call.number("timeoutSeconds") or 1800)
    bookmarks = call.flag("allowWatchBookmarks")
    marked = time.monotonic()
    cutting = asyncio.ensure_future(cut.wait())
    getting: asyncio.Future[Change] | None = None
    try:
        while not cut.is_set():
            now = time.monotonic()
            if bookmarks and (now >= marked + world.settings.bookmark_s or now >= ends):
                marked = now
                yield _bookmark(world, call)
            if now >= ends:
                return
            getting = getting or asyncio.ensure_future(queue.get())
            until = min(ends, marked + world.settings.bookmark_s if bookmarks else ends) - now
            await asyncio.wait({getting, cutting}, timeout=until, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                lines = [told(call, getting.result(), selected)]
                getting = None
                while not queue.empty():
                    lines.append(told(call, queue.get_nowait(), selected))
                if text := b"".join(lines):
                    yield text
    finally:
        cutting.cancel()
        if getting is not None:
            getting.cancel()


def told(call: Call, change: Change, selected: Test) -> bytes:
    """Returns the line for a change: an object that enters or leaves the selection is ADDED or DELETED."""
    now = selected(change.obj)
    before = change.old is not None and selected(change.old)
    if change.type == "DELETED":
        how = "DELETED" if now or before else ""
    else:
        how = {(True, True): "MODIFIED", (True, False): "ADDED", (False, True): "DELETED"}.get(
            (now, before), ""
        )
    if not how:
        return b""
    if call.version != call.resource.version:
        return _line(how, shown(call, change.obj))
    return b'{"type":"' + how.encode() + b'","object":' + change.encoded + b"}\n"


def shown(call: Call, obj: Obj) -> Obj:
    """Returns an object under the version that was asked for."""
    if call.version == call.resource.version:
        return obj
    return {**obj, "apiVersion": f"{call.resource.group}/{call.version}"}


def _bookmark(world: World, call: Call) -> bytes:
    obj = {
        "kind": call.resource.kind,
        "apiVersion": call.resource.api_version,
        "metadata": {"resourceVersion": str(world.store.rv), "creationTimestamp": None},
    }
    return _line("BOOKMARK", obj)


def _line(how: str, obj: Obj) -> bytes:
    return orjson.dumps({"type": how, "object": obj}) + b"\n"
