"""Follows the logs of many pods at once: of each of their containers, until all have ended or are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tasks.cloud.kubernetes_kinds import POD, Object
from tasks.cloud.kubernetes_link import Link
from tasks.cloud.kubernetes_reader import PodNews, Reader
from tasks.cloud.kubernetes_told import Put, Source, Unread
from tasks.cloud.kubernetes_watch import Change

_LINGER_S = 10.0
"""How long a log may be silent once its container has ended, before it is asked for anew."""
_TOLD = 3
"""Of so many logs that cannot be read at once it is told: where no node can be reached, it is all of them."""

Containers = Callable[[Object], Sequence[str]]


def all_containers(pod: Object) -> Sequence[str]:
    """Returns the names of a pod's containers, without those that only prepare it."""
    return [str(one["name"]) for one in pod["spec"]["containers"]]


class Logs:
    """The logs of those pods that `changed` told of. Runs in an event loop; `group` gets a task for each container."""

    def __init__(
        self, link: Link, put: Put, group: asyncio.TaskGroup, containers: Containers = all_containers
    ) -> None:
        self._link, self._put, self._group, self._containers = link, put, group, containers
        self._pods: dict[str, PodNews] = {}
        self._readers: set[Reader] = set()
        self._moved = asyncio.Event()
        self._unread: set[Source] = set()
        group.create_task(self._sweep())

    def changed(self, change: Change) -> None:
        """Takes news of a pod; those of other kinds are no business of logs."""
        if change.kind != POD:
            return
        uid = str(change.object["metadata"]["uid"])
        pod = self._pods.get(uid)
        if pod is None:
            if change.type == "DELETED":
                return
            pod = self._pods[uid] = PodNews(change.object)
            for container in self._containers(change.object):
                reader = Reader(self._link, self._put, pod, container, self._moved, self._is_unread)
                self._readers.add(reader)
                task = self._group.create_task(reader.run())
                task.add_done_callback(partial(self._ended, reader))
        pod.take(change)
        self._moved.set()
        if pod.gone:
            del self._pods[uid]

    def _ended(self, reader: Reader, task: asyncio.Task[None]) -> None:
        self._readers.discard(reader)

    async def _is_unread(self, source: Source, node: str, why: str) -> None:
        """Tells that a log cannot be read, or can be again, of a few at once."""
        if bool(why) == (source in self._unread) or (why and len(self._unread) >= _TOLD):
            return
        self._unread ^= {source}
        await self._put([Unread(source, node, why)])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_LINGER_S / 4)
            since = asyncio.get_running_loop().time() - _LINGER_S
            for reader in list(self._readers):
                reader.end_silence(since)

    async def drained(self, within_s: float) -> bool:
        """Waits until all pods have ended and all they said is read. Returns whether that came about: it is given up
        when for so long none ended and no log came to its end.
        """
        clock, left = asyncio.get_running_loop().time, self._left()
        try:
            async with asyncio.timeout(within_s) as limit:
                while left:
                    await self._moved.wait()
                    self._moved.clear()
                    before, left = left, self._left()
                    if left < before:
                        limit.reschedule(clock() + within_s)
        except TimeoutError:
            return False
        return True

    def _left(self) -> int:
        """Returns how many pods have not ended, and how many logs are not read to their end."""
        pods = sum(not pod.ended for pod in self._pods.values())
        return pods + sum(reader.behind for reader in self._readers)
