"""The resumable uploads that are under way in a process."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.gcs_proxy.refusal import Refused, unavailable
from runtime.gcs_proxy.upload_state import Session

_MOST, _HELD_MOST = 20_000, 24 << 20
_IDLE_S = 7 * 86400.0
_TURN_S = 60.0


class Sessions:
    """See above. Threads share it."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix`: what ids begin with, by which other processes know whose they are."""
        self._prefix = prefix
        self._lock, self._known = threading.Lock(), OrderedDict[str, Session]()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._known)

    def add(self, session: Session) -> str:
        """Takes a new one; returns its id, which nobody can guess: who has it may write."""
        with self._lock:
            while self._known and (
                len(self._known) >= _MOST
                or time.monotonic() - next(iter(self._known.values())).used > _IDLE_S
            ):
                self._known.popitem(last=False)
            number = self._prefix + secrets.token_urlsafe(32)
            self._known[number] = session
            session.used = time.monotonic()
            return number

    @contextmanager
    def turn(self, number: str) -> Iterator[Session]:
        """Gives an upload to one request at a time. Raises Refused: 410 where there is none of this id."""
        with self._lock:
            found = self._known.get(number)
            if found is None:
                raise Refused(
                    410, "uploadSessionGone", "This upload is not known here: it has to begin again"
                )
            self._known.move_to_end(number)
            found.used = time.monotonic()
        if not found.lock.acquire(timeout=_TURN_S):
            raise unavailable("another request of this upload is under way")
        try:
            yield found
        finally:
            found.lock.release()

    def drop(self, number: str) -> None:
        """Forgets one."""
        with self._lock:
            self._known.pop(number, None)

    def check_room(self, more: int) -> None:
        """Raises Refused (503) where no more plaintext is to be held between requests."""
        with self._lock:
            if sum(len(session.held) for session in self._known.values()) + more > _HELD_MOST:
                raise unavailable("too many uploads hold parts of blocks here")
