"""A JobSet that somebody deleted and that stays, because finalizers keep it: nobody can say when that will end.

Its Jobs and pods are collected once it is gone. For as long as somebody else's finalizer keeps it they run on, and its
controller looks at it no more; Kubernetes' own finalizers only wait for pods, which end within their grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.cloud.kubernetes_kinds import JOB_SET, POD, Kind, Object

_ENDED = ("Succeeded", "Failed")
_OF_KUBERNETES = frozenset({"foregroundDeletion", "orphan"})


@dataclass(frozen=True, slots=True)
class Held:
    """What keeps a JobSet that somebody deleted, how long that was borne, how many of its pods go on, and how many
    seconds these may run in all (None: without end).
    """

    finalizers: Sequence[str]
    waited_s: float
    pods: int = 0
    deadline_s: int | None = None

    def __str__(self) -> str:
        whose = f"the finalizer {self.finalizers[0]} keeps"
        if len(self.finalizers) > 1:
            whose = f"the finalizers {', '.join(self.finalizers)} keep"
        told = (
            f"it is being deleted, and {whose} its JobSet: not waited for any more after {self.waited_s:g} s"
        )
        if not self.pods:
            return f"{told}; whoever set that has to take it away"
        ends = "" if self.deadline_s is None else f", or its deadline of {self.deadline_s} s is over"
        run = "run" if self.pods > 1 else "runs"
        return f"{told}; {self.pods} of its pods {run} on until whoever set that takes it away{ends}"


class Going:
    """Whether a JobSet is held, by what a watch tells of it and its pods."""

    def __init__(self, waits_s: float) -> None:
        self._waits_s = waits_s
        self._finalizers: Sequence[str] = ()
        self._deadline_s: int | None = None
        self._alive: set[str] = set()
        self._news = asyncio.Event()

    def take(self, kind: Kind, type_: str, one: Object) -> None:
        """Takes a change."""
        meta = one["metadata"]
        if kind == JOB_SET:
            going = meta.get("deletionTimestamp") and type_ != "DELETED"
            self._finalizers = tuple(meta.get("finalizers") or ()) if going else ()
            self._deadline_s = _deadline(one)
        elif kind == POD and (type_ == "DELETED" or (one.get("status") or {}).get("phase") in _ENDED):
            self._alive.discard(meta["uid"])
        elif kind == POD:
            self._alive.add(meta["uid"])
        else:
            return
        self._news.set()

    async def held(self) -> Held:
        """Waits until it has been held for so long."""
        while True:
            await self._until(held=True)
            try:
                async with asyncio.timeout(self._waits_s):
                    await self._until(held=False)
            except TimeoutError:
                return Held(self._finalizers, self._waits_s, len(self._alive), self._deadline_s)

    async def _until(self, *, held: bool) -> None:
        while self._is_held() != held:
            self._news.clear()
            await self._news.wait()

    def _is_held(self) -> bool:
        return bool({*self._finalizers} - _OF_KUBERNETES or (self._finalizers and not self._alive))


def _deadline(jobset: Object) -> int | None:
    jobs = [one["template"]["spec"] for one in (jobset.get("spec") or {}).get("replicatedJobs") or ()]
    limits = [one.get("activeDeadlineSeconds") for one in jobs]
    return max(limits) if limits and None not in limits else None
