"""Reads the log of one container, start by start: each line once, through cuts and restarts of the server.

A log counts as read to its end when the server ended it by itself after the container was known to have ended: an
answer that ends earlier may have been cut, by a server that goes down or after its hour, and is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tasks.cloud.kubernetes_errors import KubernetesError, NotFound
from tasks.cloud.kubernetes_http import Connection
from tasks.cloud.kubernetes_kinds import POD, Object
from tasks.cloud.kubernetes_link import Link, Silence, Trial
from tasks.cloud.kubernetes_seam import Seam
from tasks.cloud.kubernetes_told import Line, LogEnd, Put, Source
from tasks.cloud.kubernetes_watch import Change

_LONGEST = 1 << 20
"""Bytes of one line; what is beyond is dropped, so that a program that never ends a line cannot fill our memory."""
_LOOK_S = 0.5
"""How long is waited for news of a pod whose log ended by itself, before it is asked for again."""
_UNREADABLE_S = 60.0
"""How long a node may fail to give the log of a container that has ended, before that is given up."""


@dataclass(frozen=True, slots=True)
class _State:
    """Of the newest start of a container: which it is, whether it began, and whether it has ended."""

    restart: int = 0
    begun: bool = False
    ended: bool = False


class PodNews:
    """What is known of a pod; `news` is set, and another one takes its place, when that changes."""

    def __init__(self, pod: Object) -> None:
        self.name, self.uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        self.namespace = str(pod["metadata"]["namespace"])
        self.node = ""
        self.gone = self.ended = False
        self.news = asyncio.Event()
        self._states: dict[str, _State] = {}

    def state(self, container: str) -> _State:
        """Returns how the newest start of a container is."""
        return self._states.get(container, _State())

    def take(self, change: Change) -> None:
        """Takes what a watch says of the pod."""
        status: Any = change.object.get("status") or {}
        self.node = str((change.object.get("spec") or {}).get("nodeName") or "")
        for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            self._states[one["name"]] = _state(one)
        self.gone = self.gone or change.type == "DELETED"
        self.ended = self.gone or status.get("phase") in ("Succeeded", "Failed")
        self.news.set()
        self.news = asyncio.Event()


def _state(status: Any) -> _State:
    now, before = status.get("state") or {}, status.get("lastState") or {}
    # One that waits to be started again is still the start that ended.
    ended = "terminated" in now or ("running" not in now and "terminated" in before)
    return _State(int(status.get("restartCount") or 0), ended or "running" in now, ended)


class Reader:
    """Reads the log of one container, start by start."""

    def __init__(
        self,
        link: Link,
        put: Put,
        pod: PodNews,
        container: str,
        moved: asyncio.Event,
        unread: Callable[[Source, str, str], Awaitable[None]],
    ) -> None:
        """`moved` is set when the log of one start was read to its end; `unread` is told when one cannot be read."""
        self._link, self._put, self._pod, self._container, self._moved = link, put, pod, container, moved
        self._unread = unread
        self._done = -1  # the newest start whose log was read
        self._source: Source | None = None
        self._answer: Connection | None = None

    @property
    def behind(self) -> bool:
        """Whether the container has begun, and what it says is not read to its end."""
        state = self._pod.state(self._container)
        return state.begun and state.restart > self._done

    async def run(self) -> None:
        """Reads until the pod is gone, or has ended for good. Of starts before the first look the server has one at
        most, if any.
        """
        first = True
        while True:
            if self.behind:
                newest = self._pod.state(self._container).restart
                restart = max(newest - 1, 0) if first else self._done + 1
                source = Source(self._pod.name, self._pod.uid, self._container, restart)
                end = await self._read(source, may_be_gone=first and restart < newest)
                await self._put([end])
                self._done, first = restart, False
                self._moved.set()
            elif self._pod.ended:
                return
            else:
                await self._pod.news.wait()

    async def _read(self, source: Source, *, may_be_gone: bool = False) -> LogEnd:
        """Reads the log of one start of the container, and returns how that ended. `may_be_gone`: what the server
        refuses is not asked for again.
        """
        self._source, whole = source, False
        seam, trial = Seam(), self._link.trial(served=True)
        clock = asyncio.get_running_loop().time
        ended_at: float | None = None
        while True:
            newest, ended = self._pod.state(self._container).restart, self._has_ended(source)
            ended_at = clock() if ended and ended_at is None else ended_at
            if newest > source.restart + 1:
                return LogEnd(source, False, "the container was started twice before it was read")
            params = {"container": self._container, "follow": "true", "timestamps": "true", **seam.resume()}
            if newest > source.restart:
                params["previous"] = "true"
            try:
                whole = await self._piece(source, params, seam, trial, ended)
            except NotFound:
                return LogEnd(source, whole, "" if whole else "the pod was deleted before it was read")
            except KubernetesError as error:
                whole = False
                if may_be_gone and error.answered:
                    return LogEnd(source, False, str(error))
                if error.answered and trial.failing_s > self._link.unheard_s:
                    await self._unread(source, self._pod.node, str(error))
                if not await self._bears(error, trial, clock() - ended_at if ended_at is not None else 0.0):
                    return LogEnd(source, False, str(error))
                continue
            if ended:
                return LogEnd(source, not seam.words, seam.words)
            if not self._has_ended(source):  # it was cut, or news of its end is on its way
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._pod.news.wait()

    async def _bears(self, error: KubernetesError, trial: Trial, ended_s: float) -> bool:
        """Waits before the next try; returns whether there is to be one. `ended_s`: how long ago the container ended.

        While it runs it may be silent, and its node out of reach, for as long as it likes.
        """
        if isinstance(error, Silence):
            return ended_s < _UNREADABLE_S
        if error.answered and ended_s and trial.failing_s > _UNREADABLE_S:
            return False
        try:
            await trial.failed(error, alone=error.answered)
        except KubernetesError:
            return False
        return True

    def _has_ended(self, source: Source) -> bool:
        state = self._pod.state(self._container)
        return self._pod.ended or state.restart > source.restart or state.ended

    async def _piece(
        self, source: Source, params: dict[str, str], seam: Seam, trial: Trial, ended: bool
    ) -> bool:
        """Reads one answer. Returns whether the server ended it by itself; what is torn off at its end is dropped,
        unless the container has ended: then it is a last line without an end.
        """
        path = POD.path(self._pod.namespace, self._pod.name, "log")
        rest = b""
        try:
            doing = f"read the log of pod {self._pod.name}"
            async with self._link.stream(doing, path, params, answer_s=None, opened=self._opened) as answer:
                trial.passed()
                await self._unread(source, self._pod.node, "")
                seam.words = ""
                async for data in answer.body():
                    data = rest + data if rest else data
                    *lines, rest = data.split(b"\n")
                    if len(data) > _LONGEST:
                        lines, rest = [line[:_LONGEST] for line in lines], rest[:_LONGEST]
                    await self._put(_lines(source, seam.fresh(lines)))
            if rest and ended:
                await self._put(_lines(source, seam.fresh([rest])))
            return True
        finally:
            self._answer = None

    def _opened(self, connection: Connection) -> None:
        self._answer = connection

    def end_silence(self, since: float) -> None:
        """Ends an answer that goes on though the container has ended, when nothing came `since` (the loop's clock)."""
        source, answer = self._source, self._answer
        if source is not None and answer is not None and answer.heard_at < since and self._has_ended(source):
            answer.close("the container has ended, and nothing more came")


def _lines(source: Source, fresh: list[bytes]) -> list[Line]:
    lines = []
    for line in fresh:
        at, _, text = line.partition(b" ")
        lines.append(Line(source, at.decode("ascii", "replace"), text.decode("utf-8", "replace")))
    return lines
