"""One run at a time on each place, of all nightlies that are played on this machine; each night by one process."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from tasks.cloud.locks import locked
from tasks.config.home import home
from tasks.stages.context import Say
from tasks.stages.nightly_places import Places

_LOCKS = "nightly/locks"


@dataclass(frozen=True)
class Wanted:
    """What a run has to itself: `places`, for `doing`. `wait_s`: how long another nightly's run is waited for.

    `over` says why nothing is to begin any more, if so.
    """

    places: Places
    doing: str
    wait_s: float
    over: Callable[[], str | None]


@dataclass(frozen=True)
class Held:
    """Places that nobody else has: `descriptors` hold them, also in a process that inherits them.

    `why_not`: the reason where they could not be had; empty: they are.
    """

    descriptors: tuple[int, ...]
    why_not: str = ""


@dataclass
class Locks:
    """The places of all nightlies that are played here.

    Whoever is killed lets go of them, once the run that it began is through as well: that uses them yet.
    """

    folder: Path = field(default_factory=lambda: home() / _LOCKS)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: dict[str, threading.Lock] = field(default_factory=dict)

    @contextmanager
    def held(self, wanted: Wanted, say: Say) -> Iterator[Held]:
        """Within, nobody else has any of these, or what is yielded says why not.

        Runs of the same night are waited for as long as they take.
        """
        with ExitStack() as stack:
            for name in sorted(wanted.places):
                with self._lock:
                    lock = self._places.setdefault(name, threading.Lock())
                stack.enter_context(lock)
            try:
                ways = [self._of_nightlies(name, wanted, say) for name in sorted(wanted.places)]
                held = Held(tuple(stack.enter_context(way) for way in ways))
            except (InfrastructureError, _Over) as error:
                held = Held((), str(error))
            yield held

    def _of_nightlies(self, name: str, wanted: Wanted, say: Say) -> AbstractContextManager[int]:
        def look() -> None:
            if why := wanted.over():
                raise _Over(why)

        def told(line: str) -> None:
            say(f"{name} is in use: {line}")

        return locked(self.folder / _file(name), wanted.doing, say=told, timeout_s=wanted.wait_s, look=look)


class _Over(Exception):
    """Nothing is to begin any more."""


def playing_alone(
    name: str, uri: str, wait_s: float, say: Say, *, what: str = "night"
) -> AbstractContextManager[int]:
    """Within, no other process on this machine plays this night, or `what` it is; one that does is waited for.

    Raises InfrastructureError, naming it, where it is still at it after so many seconds.
    """
    path = home() / _LOCKS / _file(f"{what} {uri}")
    return locked(path, f"playing the {what} {name}", say=say, timeout_s=wait_s)


def _file(name: str) -> str:
    """Returns the name of a lock's file: what can be read of it, and a hash of all."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", name)[-60:].strip("-")
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.lock"
