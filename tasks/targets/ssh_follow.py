"""Follows workers on hosts: their streams are read over SFTP from where reading stopped, whatever becomes of links."""

from __future__ import annotations

import concurrent.futures
import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.targets.streams import LOST, SILENT, Tail, event_of
from tasks.targets.types import Event, Exited, State

_QUICK_S, _SLOW_S = 0.05, 0.25
"""How long to wait before looking again: after news, and after long silence; in between it grows."""

_THREADS = 32
_ALIVE_EVERY_S = 1.0


@dataclass(frozen=True)
class Watched:
    """A worker's supervisor on a host; `stream` is the path of its stream file, `uid` is pid@start@boot."""

    worker: int
    host: Host
    stream: str
    uid: str


def follow_hosts(
    pool: Pool,
    watched: Sequence[Watched],
    since: Mapping[int, int],
    lost_after_s: float,
    gone: Callable[[], str] = lambda: "",
) -> Iterator[Event]:
    """Yields what workers say after their cursors until all have ended.

    A host that cannot be reached is told once and dialled again and again; after `lost_after_s` without an
    answer its worker is given up with code SILENT. By then its supervisor has ended by itself, if its host lives.
    Once `gone` says why hosts were taken away, no more is waited for: workers that did not end are LOST.
    """
    views = [_View(pool, one, since.get(one.worker, 0), lost_after_s, gone) for one in watched]
    with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(views) or 1), "follow") as threads:
        due = [(0.0, one.worker) for one in watched]
        by_worker = {one.worker: view for one, view in zip(watched, views, strict=True)}
        looking: dict[concurrent.futures.Future[list[Event]], int] = {}
        while due or looking:
            now = time.monotonic()
            while due and due[0][0] <= now:
                worker = heapq.heappop(due)[1]
                looking[threads.submit(by_worker[worker].look)] = worker
            wait_s = due[0][0] - now if due else None
            if not looking:
                time.sleep(wait_s or 0.0)
                continue
            done, _ = concurrent.futures.wait(looking, wait_s, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                worker = looking.pop(future)
                events = future.result()
                if not any(isinstance(event, Exited) for event in events):
                    heapq.heappush(due, (time.monotonic() + by_worker[worker].pause_s(len(views)), worker))
                yield from events


class _View:
    """One worker as seen from here. Used by one thread at a time."""

    def __init__(
        self, pool: Pool, watched: Watched, after: int, lost_after_s: float, gone: Callable[[], str]
    ) -> None:
        self._pool, self._watched, self._lost_after_s = pool, watched, lost_after_s
        self._gone = gone
        self._link: Link | None = None
        self._read: Callable[[int, int], bytes] | None = None
        self._tail = Tail(self._read_on, after)
        self._quiet_s = _QUICK_S
        self._asked_at = float("-inf")
        self._answered_at = time.monotonic()
        self._away: SshError | None = None

    def look(self) -> list[Event]:
        """Returns what is new. An Exited is the last thing that is ever returned."""
        gone = self._gone()  # asked first: what was said before is read
        events = self._look()
        if gone and not any(isinstance(event, Exited) for event in events):
            events.append(Exited(self._watched.worker, LOST, gone))
        return events

    def _look(self) -> list[Event]:
        try:
            link = self._pool.link(self._watched.host.endpoint)
            if link is not self._link:
                self._link, self._read = link, link.reader(self._watched.stream)
            living = self._living(link)  # asked before reading: what was written before it died is read
            events = [event_of(self._watched.worker, record) for record in self._tail.records()]
        except SshError as error:
            return self._without_answer(error)
        self._answered_at = time.monotonic()
        self._quiet_s = _QUICK_S if events else min(_SLOW_S, self._quiet_s * 1.5)
        if self._away is not None:
            self._away = None
            events.insert(
                0, State("running", f"worker {self._watched.worker}: {self._watched.host} answers again")
            )
        if not living and not any(isinstance(event, Exited) for event in events):
            lost = f"the supervisor on {self._watched.host} is gone without a last word: it was killed, or its host was"
            events.append(Exited(self._watched.worker, LOST, lost))
        return events

    def pause_s(self, views: int) -> float:
        """Returns how long to leave it alone, seconds: longer when there are very many."""
        return self._quiet_s * max(1.0, views / _THREADS)

    def _read_on(self, offset: int, size: int) -> bytes:
        assert self._read is not None
        return self._read(offset, size)

    def _living(self, link: Link) -> bool:
        if time.monotonic() - self._asked_at < _ALIVE_EVERY_S:
            return True
        self._asked_at = time.monotonic()
        pid, start, _ = self._watched.uid.split("@")
        try:
            stat = link.read(f"/proc/{pid}/stat", 0, 4096)
        except FileNotFoundError:
            return False
        fields = stat[stat.rindex(b")") + 2 :].split()
        return fields[0] not in (b"Z", b"X") and abs(int(fields[19]) / _TICKS - float(start)) < 0.02

    def _without_answer(self, error: SshError) -> list[Event]:
        silent_s = time.monotonic() - self._answered_at
        self._quiet_s = 1.0
        worker = self._watched.worker
        if silent_s > self._lost_after_s:
            cause = f"{error}; no answer for {silent_s:.0f} s, by when its supervisor has ended by itself"
            return [Exited(worker, SILENT, cause)]
        if self._away is not None:
            return []
        self._away = error
        return [
            State("unreachable", f"worker {worker}: {error}", "it is dialled again; it may still be running")
        ]


_TICKS = 100
"""Clock ticks per second in /proc, which the kernel fixes at 100 for user space on every platform we run on."""
