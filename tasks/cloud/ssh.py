"""Pool: links to many hosts, one each, dialled when needed: a bounded number at a time, jittered, and again when lost.

pool.each(endpoints, lambda link: link.run(["true"]))   # by endpoint: what came of it, or its SshError
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from tasks.cloud.calls import calling
from tasks.cloud.ssh_dial import dial
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import SshError, Unreachable
from tasks.cloud.ssh_link import Link

T = TypeVar("T")

_DIALS = 32
_DIALS_PER_SERVER = 8
"""sshd drops new connections at random from the tenth on that has not logged in yet (MaxStartups 10:30:100)."""

_TRIES = 4
_TRIES_FOR = {"timeout": 2, "no_banner": 7}
"""A host that drops us at random is asked more often than one that has said what it thinks: it is slow, not ill."""

_BREAKS = {"lost": 5, "timeout": 2}
"""How often a link may break in one and the same call. A host that lets each of them time out is as good as gone."""

_FIRST_PAUSE_S = 0.2
_SPREAD_S = 0.002
"""First dials of many hosts are spread over so long for each, seconds."""


class Pool:
    """Links by endpoint. Safe to use from several threads; every link is shared by all that use it.

    `connect_s` is how long each step of dialling may take. A try that fails is repeated a few times with
    growing, jittered pauses, unless the host refused us for good.
    """

    def __init__(self, *, dials: int = _DIALS, connect_s: float = 10.0) -> None:
        self._connect_s = connect_s
        self._dialling = threading.BoundedSemaphore(dials)
        self._lock = threading.Lock()
        self._places: dict[Endpoint, _Place] = {}
        self._servers: dict[Endpoint, threading.BoundedSemaphore] = {}
        self._workers = concurrent.futures.ThreadPoolExecutor(dials, "ssh")

    def link(self, endpoint: Endpoint) -> Link:
        """Returns a live link, dialling when there is none. Raises SshError."""
        place = self._place(endpoint)
        with place.lock:
            if place.link is None or not place.link.alive:
                place.link = self._dial(endpoint)
            return place.link

    def call(self, endpoint: Endpoint, task: Callable[[Link], T]) -> T:
        """Does something over a link, and again over a new one when it breaks. So `task` must bear repetition."""
        for broke in itertools.count(1):
            link = self.link(endpoint)
            try:
                return task(link)
            except Unreachable as error:
                if error.reason == "lost":
                    # Its end is not always seen at once: it would break again, and again, and use up the tries.
                    self._give_up(endpoint, link)
                if broke >= _BREAKS.get(error.reason, 1):
                    raise
        raise AssertionError("the last try either returned or raised")

    def each(
        self, endpoints: Iterable[Endpoint], task: Callable[[Link], T]
    ) -> Mapping[Endpoint, T | SshError]:
        """Does something on all hosts at once; returns for each what came of it, or why nothing did."""
        return self.all(dict.fromkeys(endpoints, task))

    def all(self, tasks: Mapping[Endpoint, Callable[[Link], T]]) -> Mapping[Endpoint, T | SshError]:
        """Like `each`, with a task of its own for every host."""
        futures = {
            endpoint: self._workers.submit(self.attempt, endpoint, task, len(tasks))
            for endpoint, task in tasks.items()
        }
        return {endpoint: future.result() for endpoint, future in futures.items()}

    def attempt(self, endpoint: Endpoint, task: Callable[[Link], T], hosts: int = 1) -> T | SshError:
        """Like `call`, but returns the error. Being one of many `hosts` it waits a random moment before it dials."""
        place = self._places.get(endpoint)
        if hosts > 1 and (place is None or place.link is None):
            time.sleep(random.uniform(0, hosts * _SPREAD_S))
        try:
            return self.call(endpoint, task)
        except SshError as error:
            return error

    def submit(self, endpoint: Endpoint, task: Callable[[Link], T]) -> concurrent.futures.Future[T]:
        """Does something on one host without waiting for it."""
        return self._workers.submit(self.call, endpoint, task)

    def close(self) -> None:
        """Hangs up everywhere."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        for place in self._places.values():
            if place.link is not None:
                place.link.close()

    def _give_up(self, endpoint: Endpoint, link: Link) -> None:
        """Closes a link that failed, unless another is there by now."""
        place = self._place(endpoint)
        with place.lock:
            if place.link is link:
                place.link = None
        link.close()

    def _dial(self, endpoint: Endpoint) -> Link:
        pause_s = _FIRST_PAUSE_S
        for tried in itertools.count(1):
            through = self.link(endpoint.jump).transport if endpoint.jump else None
            try:
                with (
                    self._server(endpoint),
                    self._dialling,
                    calling("ssh", f"{endpoint} log in", 3 * self._connect_s),
                ):
                    return Link(endpoint, dial(endpoint, self._connect_s, through))
            except Unreachable as error:
                if tried >= _TRIES_FOR.get(error.reason, _TRIES) or error.reason == "no_such_name":
                    raise
            time.sleep(pause_s * random.uniform(0.5, 1.5))
            pause_s *= 2
        raise AssertionError("the last try either returned or raised")

    def _place(self, endpoint: Endpoint) -> _Place:
        with self._lock:
            return self._places.setdefault(endpoint, _Place())

    def _server(self, endpoint: Endpoint) -> threading.BoundedSemaphore:
        """Returns what bounds the dials to one sshd, whoever logs in there."""
        server = replace(endpoint, user="", keys=(), host_key=None)
        with self._lock:
            return self._servers.setdefault(server, threading.BoundedSemaphore(_DIALS_PER_SERVER))


class _Place:
    """Where a link is kept; its lock lets one thread dial while others wait for what comes of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.link: Link | None = None


@cache
def shared_pool() -> Pool:
    """Returns the pool of this process: target, reaper and command need no second link to the same host."""
    return Pool()


# A forked process has none of the threads that links live by: it dials for itself.
os.register_at_fork(after_in_child=shared_pool.cache_clear)
