"""Follows one JobSet: what becomes of it and all that belongs to it, and each line its pods say, in one iterator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_held import Going, Held
from tasks.cloud.kubernetes_kinds import POD
from tasks.cloud.kubernetes_link import Link, Patience
from tasks.cloud.kubernetes_logs import Containers, Logs, all_containers
from tasks.cloud.kubernetes_stream import Funnel, iterate
from tasks.cloud.kubernetes_told import Line, LogEnd, Unread
from tasks.cloud.kubernetes_watch import Change, Contact, Query, Watch, of_job_set


@dataclass(frozen=True, slots=True)
class Beat:
    """Time has passed, whether anything else came or not."""


Followed: TypeAlias = Change | Line | LogEnd | Unread | Contact | Held | Beat

_HELD_S = 30.0
"""How long is waited for a JobSet to go that somebody deleted and a finalizer keeps."""
_DRAIN_S = 30.0
"""How long is waited, once the JobSet has ended, for another of its pods or logs to end."""


def follow(
    access: Access,
    namespace: str,
    name: str,
    uid: str,
    *,
    until: Callable[[Change], bool] = lambda change: False,
    containers: Containers = all_containers,
    patience: Patience | None = None,
    drain_s: float = _DRAIN_S,
    held_s: float = _HELD_S,
    beat_s: float | None = None,
) -> Iterator[Followed]:
    """Yields changes of the JobSet's objects and lines of its pods as they come, until `until` says so of a change and
    what the pods had said by then is read; when for `drain_s` none of what is left ends, it ends even so. When somebody
    deleted it, and finalizers keep it for `held_s`, Held comes, and that is the end at once.

    With `beat_s` a Beat comes each time that so many seconds have passed. A pod's lines come after the change that
    shows it running, and in their order. Raises KubernetesError when the server refuses, or is away for longer than
    there is patience.
    """
    queries = of_job_set(namespace, name, uid)
    return iterate(
        lambda funnel: _run(
            funnel, access, queries, until, containers, patience or Patience(), drain_s, held_s, beat_s
        )
    )


async def _beat(funnel: Funnel[Followed], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        funnel.put_now(Beat())


async def _held(going: Going, funnel: Funnel[Followed]) -> None:
    funnel.put_now(await going.held())
    raise _Finished


class _Finished(Exception):
    """All is read."""


async def _run(
    funnel: Funnel[Followed],
    access: Access,
    queries: Sequence[Query],
    until: Callable[[Change], bool],
    containers: Containers,
    patience: Patience,
    drain_s: float,
    held_s: float,
    beat_s: float | None,
) -> None:
    ended, going = asyncio.Event(), Going(held_s)

    async def put(changes: Sequence[Change]) -> None:
        await funnel.put(changes)
        for change in changes:
            logs.changed(change)
            going.take(change.kind, change.type, change.object)
            if until(change):
                ended.set()

    try:
        async with (
            Link(access, patience, lambda text: funnel.put_now(Contact(text))) as link,
            asyncio.TaskGroup() as group,
        ):
            logs = Logs(link, funnel.put, group, containers)
            watches = [Watch(link, query, put) for query in queries]
            if beat_s is not None:
                group.create_task(_beat(funnel, beat_s))
            group.create_task(_held(going, funnel))
            for watch in watches:
                group.create_task(watch.run())
            await ended.wait()
            # Watches of several kinds are not in step: there may be pods that nobody has told of yet.
            with suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await asyncio.gather(*(watch.catch_up() for watch in watches if watch.kind == POD))
            await logs.drained(drain_s)
            raise _Finished
    except* _Finished:
        pass
