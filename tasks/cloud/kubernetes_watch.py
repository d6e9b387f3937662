"""Watches objects of one cluster: every change once, in order, through restarts of the server and lost connections.

A watch goes on from the version it has seen. When the server no longer knows that (410), the objects are listed anew
and compared with those that were told of: nothing is told twice, and what went meanwhile is told as DELETED.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import DecodeError
from msgspec.json import decode, encode

from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_errors import (
    Expired,
    KubernetesError,
    NotServed,
    PermissionDenied,
    Unavailable,
    error_for,
    told_by,
)
from tasks.cloud.kubernetes_http import Connection
from tasks.cloud.kubernetes_kinds import EVENT, JOB, JOB_SET, POD, WORKLOAD, Kind, Object
from tasks.cloud.kubernetes_labels import JOB_UID, JOBSET_UID
from tasks.cloud.kubernetes_link import Link, Patience, Silence, Trial
from tasks.cloud.kubernetes_objects import clean, items_of
from tasks.cloud.kubernetes_stream import Funnel, iterate

_PAGE = 500
_WATCH_S = (240, 300)
"""How long the server is asked to serve one watch, seconds: not all of a server's watches are to end at once."""

_ANEW = "it is to be listed anew"
_DISTRUST = 5
"""After so many failures in a row it is not asked for what came after a version, but listed anew: a server that was
restored from a backup may not have come so far yet.
"""


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of an object; of one that is DELETED, how it was last."""

    type: ChangeType
    kind: Kind
    object: Object


@dataclass(frozen=True, slots=True)
class Contact:
    """The server has not answered for a while, and why; with an empty text: it answers again."""

    lost: str


@dataclass(frozen=True)
class Query:
    """Which objects to watch. `keep` picks among what the selectors let through.

    `optional`: it is no error when the cluster has no such kind, or does not let us see it.
    `memory`: whether changes that were missed are told after a list; else only what is new or other by then.
    """

    kind: Kind
    namespace: str
    labels: str = ""
    fields: str = ""
    keep: Callable[[Object], bool] | None = None
    optional: bool = False
    memory: bool = True


Put = Callable[[Sequence[Change]], Awaitable[None]]


def of_job_set(namespace: str, name: str, uid: str) -> Sequence[Query]:
    """Returns what there is to watch of one JobSet: itself, its Workload, Jobs, Pods, and events about any of them."""
    of_it = f"{JOBSET_UID}={uid}"

    def about_it(event: Object) -> bool:
        named = str((event.get("involvedObject") or {}).get("name") or "")
        return named == name or named.startswith((f"{name}-", f"jobset-{name}-"))

    return (
        Query(
            JOB_SET,
            namespace,
            fields=f"metadata.name={name}",
            keep=lambda one: bool(one["metadata"].get("uid") == uid),
        ),
        Query(WORKLOAD, namespace, labels=f"{JOB_UID}={uid}", optional=True),
        Query(JOB, namespace, labels=of_it),
        Query(POD, namespace, labels=of_it),
        Query(EVENT, namespace, keep=about_it, optional=True, memory=False),
    )


def watch(
    access: Access, queries: Sequence[Query], patience: Patience | None = None
) -> Iterator[Change | Contact]:
    """Yields what there is (ADDED), then every change, without an end. Of one kind they are in order.

    Raises KubernetesError when the server refuses, or is away for longer than there is patience.
    """

    async def main(funnel: Funnel[Change | Contact]) -> None:
        link = Link(access, patience or Patience(), lambda text: funnel.put_now(Contact(text)))
        async with link, asyncio.TaskGroup() as group:
            for query in queries:
                group.create_task(Watch(link, query, funnel.put).run())

    return iterate(main, name="watch")


class Watch:
    """One query's watch, within a link."""

    def __init__(self, link: Link, query: Query, put: Put) -> None:
        self.kind = query.kind
        self._link, self._query, self._put = link, query, put
        self._path = query.kind.path(query.namespace)
        chosen = {"labelSelector": query.labels, "fieldSelector": query.fields}
        self._selectors = {key: value for key, value in chosen.items() if value}
        self._version = ""
        self._anew, self._listed = False, asyncio.Event()
        self._answer: Connection | None = None
        # Of each object that was told of: its version, and the text of its last change (parsed it would take ten times
        # the memory).
        self._told: dict[str, tuple[str, bytes]] = {}

    async def run(self) -> None:
        """Watches until it is cancelled. Raises KubernetesError; an optional query that is refused just ends."""
        trial = self._link.trial()
        while True:
            try:
                while self._anew or not self._version:
                    self._anew = False
                    await self._list()
                self._listed.set()
                try:
                    await self._follow(trial)
                finally:
                    self._answer = None  # others may use the connection from now on
            except Silence:  # the watch goes on where it was
                continue
            except KubernetesError as error:
                refused = isinstance(error, NotServed | PermissionDenied)
                if refused and self._query.optional and not trial.served:
                    return
                if isinstance(error, Expired) or trial.failures >= _DISTRUST:
                    self._version = ""
                await trial.failed(error)

    async def catch_up(self) -> None:
        """Waits until all is told that was so when this was called, though changes be still on their way."""
        self._anew = True
        self._listed.clear()
        if self._answer is not None:
            self._answer.close(_ANEW)
        await self._listed.wait()

    async def _list(self) -> None:
        """Tells how what is there differs from what was told."""
        params: dict[str, str | int] = {**self._selectors, "limit": _PAGE}
        there: dict[str, tuple[Object, bytes]] = {}
        while True:
            page = await self._link.json(f"list {self._query.kind.full_plural}", self._path, params)
            for one in items_of(page, self._query.kind):
                there[one["metadata"]["uid"]] = one, encode({"object": one})
            if not page["metadata"].get("continue"):
                break
            params["continue"] = page["metadata"]["continue"]
        gone = [self._gone(uid) for uid in self._told.keys() - there.keys()]
        changes = [self._changed(one, text) for one, text in there.values()]
        await self._put([change for change in (*gone, *changes) if change is not None])
        self._version = str(page["metadata"]["resourceVersion"])

    async def _follow(self, trial: Trial) -> None:
        """Tells every change after the version, until the server ends the watch, as it does now and then."""
        params: dict[str, str | int] = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": random.randint(*_WATCH_S),
        }
        doing = f"watch {self._query.kind.full_plural}"
        loop = asyncio.get_running_loop()
        begin, before = loop.time(), self._version
        silence_s = min(self._link.patience.watch_silence_s, self._link.patience.silence_s)
        async with self._link.stream(
            doing, self._path, params, silence_s=silence_s, opened=self._opened
        ) as answer:
            trial.passed()
            async for lines in whole_lines(answer.body()):
                try:
                    changes = [self._taken(line, doing) for line in lines]
                except (DecodeError, KeyError, TypeError) as error:
                    raise Unavailable(f"cannot {doing}: what comes is no watch's ({error})") from error
                await self._put([change for change in changes if change is not None])
        if self._version == before and loop.time() - begin < 1.0:  # it has nothing to give and no time
            await asyncio.sleep(self._link.patience.first_pause_s)

    def _opened(self, connection: Connection) -> None:
        self._answer = connection
        if self._anew:  # since before there was anything to close
            connection.close(_ANEW)

    def _taken(self, line: bytes, doing: str) -> Change | None:
        event = decode(line)
        if event["type"] == "ERROR":
            status = event["object"]
            raise error_for(told_by(status.get("code", 500), encode(status)), doing, self._link.access.name)
        one = clean(event["object"])
        self._version = str(one["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            return None
        if event["type"] == "DELETED":
            self._told.pop(one["metadata"]["uid"], None)
            return self._kept("DELETED", one)
        return self._changed(one, line)

    def _changed(self, one: Object, text: bytes) -> Change | None:
        """Returns the change that makes an object be as it is now; None where it was told to be so."""
        uid, version = one["metadata"]["uid"], one["metadata"]["resourceVersion"]
        before = self._told.get(uid)
        self._told[uid] = version, text if self._query.memory else b""
        if before is not None and before[0] == version:
            return None
        return self._kept("ADDED" if before is None else "MODIFIED", one)

    def _gone(self, uid: str) -> Change | None:
        """Returns the change for an object that is not there any more."""
        _, text = self._told.pop(uid)
        return self._kept("DELETED", clean(decode(text)["object"])) if text else None

    def _kept(self, type_: ChangeType, one: Object) -> Change | None:
        if self._query.keep is not None and not self._query.keep(one):
            return None
        return Change(type_, self._query.kind, one)


async def whole_lines(body: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yields the lines that are whole, as they come; the rest of an answer that ended within one is dropped."""
    rest = b""
    async for data in body:
        data = rest + data if rest else data
        *lines, rest = data.split(b"\n")
        if lines:
            yield [line for line in lines if line]
