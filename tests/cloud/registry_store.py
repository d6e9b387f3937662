"""What the registry of the tests holds, and what is to go wrong with it."""

from __future__ import annotations

import hashlib
import queue
import re
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What goes wrong, once, when the `nth` request comes whose "METHOD path" fits `fits`.

    `how`: a status; "lost": it is done, and the answer is not sent; "cut": the connection ends after `after` bytes of
    a body, which are kept; "short": after `after` bytes of an answer; "kill_before", "kill_after": whoever asks is
    killed, and it is not done, or it is.
    """

    fits: str
    how: str
    nth: int = 1
    after: int = 0
    retry_after: str | None = None
    seen: int = 0


@dataclass
class Repository:
    """`manifests`: digest → (media type, bytes); `tags`: tag → digest."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class Store:
    """All that the registry holds. `login`: user:password that may push; with one, pulling needs a token as well.

    `asked` are "METHOD path" of all requests, in order, `ranges` those of blobs that were asked for in part,
    `tokens` the scopes of each token that was given. `victim` is put the pid of who is to be killed.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    login: str | None = None
    realm: str = ""
    mounts: bool = True
    victim: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def repository(self, name: str) -> Repository:
        return self.repositories.setdefault(name, Repository())

    def fault(self, request: str) -> Fault | None:
        with self.lock:
            self.asked.append(request)
            fitting = [fault for fault in self.faults if re.search(fault.fits, request)]
            for fault in fitting:
                fault.seen += 1
        return next((fault for fault in fitting if fault.seen == fault.nth), None)


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
