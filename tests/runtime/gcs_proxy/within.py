"""For tests that ask very often: the proxy and a store before which it stands, in one thread and without sockets."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from runtime.contract.keymap import parse_key_map
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.keys import KeyRing, make_key_file
from runtime.gcs_proxy.serve import listening
from runtime.gcs_proxy.server import Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.upstream import Origin, Pool
from runtime.gcs_proxy.wire import Closed, Wire
from tests.cloud.store.api import Asked, Reply
from tests.cloud.store.api import answer as answer_of_store
from tests.cloud.store.state import QUANTUM, World

URL = "http://store"


class End(Wire):
    """One end of a connection: what comes was known before, or is made when it is waited for."""

    def __init__(self, came: bytes = b"", pieces: int = 65536) -> None:
        self._pending, self.out = bytearray(), bytearray()
        self._came, self._pieces, self.ended = memoryview(came), pieces, False

    def send(self, data: bytes | memoryview) -> None:
        """See Wire."""
        self.out += data

    def read_into(self, view: memoryview) -> int:
        """See Wire."""
        if self._pending:
            return super().read_into(view)
        taken = min(len(view), len(self._came), self._pieces)
        view[:taken] = self._came[:taken]
        self._came = self._came[taken:]
        return taken

    def readable(self) -> bool:
        """See Wire."""
        return bool(self._pending or self._came)

    def wait(self) -> None:
        """See Wire."""

    def linger(self) -> None:
        """See Wire."""

    def close(self) -> None:
        """See Wire."""
        self.ended = True


@dataclass
class Luck:
    """What goes wrong with the requests to the store that come next."""

    takes: list[int | None] = field(default_factory=list)
    """Of the body of each upload so many bytes arrive, then its connection ends; None: all of it."""
    loses: list[bool] = field(default_factory=list)
    """Whether the answer to it gets lost."""
    says: Callable[[Asked, Reply], Reply] = lambda asked, reply: reply
    """What the store answers, instead of what it should."""


class Toward(End):
    """A connection to the store, at the proxy's end."""

    def __init__(self, world: World, luck: Luck) -> None:
        super().__init__()
        self._world, self._luck, self._cut = world, luck, False

    def send(self, data: bytes | memoryview) -> None:
        """See Wire."""
        if self._cut:
            raise Closed("cut")
        self.out += data
        take = self._luck.takes[0] if self._luck.takes and b"upload_id=" in self.out[:2000] else None
        if take is None:
            return
        head, _, body = bytes(self.out).partition(b"\r\n\r\n")
        if len(body) >= take:
            _keep(self._world, head, body[:take])
            del self._luck.takes[:1]
            self._cut = True
            raise Closed("cut")

    def read_into(self, view: memoryview) -> int:
        """See Wire."""
        if not self._pending and not self._came and not self._cut:
            self._answer()
        return super().read_into(view)

    def _answer(self) -> None:
        head, _, body = bytes(self.out).partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        if fields.get("transfer-encoding") == "chunked":
            body = _unchunked(body)
        if len(body) < int(fields.get("content-length", 0)):
            self._cut = True
            return
        self.out.clear()
        asked = Asked(method, target, fields, body, URL)
        reply = self._luck.says(asked, answer_of_store(self._world, asked))
        if b"upload_id=" in target.encode():
            del self._luck.takes[:1]
            if self._luck.loses and self._luck.loses.pop(0):
                self._cut = True
                return
        told = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        content = b"" if method == "HEAD" or reply.status in (204, 304) else bytes(reply.content)
        length = "" if reply.status in (204, 304) else f"Content-Length: {len(reply.content)}\r\n"
        self._came = memoryview(f"HTTP/1.1 {reply.status} X\r\n{told}{length}\r\n".encode() + content)


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return whole


def _keep(world: World, head: bytes, body: bytes) -> None:
    """Of an upload whose connection broke the store keeps what came, in multiples."""
    told, number = (
        re.search(rb"(?i)content-range: bytes ([0-9]+)-", head),
        re.search(rb"upload_id=([^& ]+)", head),
    )
    session = world.sessions.get(number[1].decode()) if number else None
    if session is not None and told:
        kept = bytes(session.content[: int(told[1])]) + body
        session.content[:] = kept[: len(kept) // QUANTUM * QUANTUM]


class _Memory(Pool):
    def __init__(self, world: World, luck: Luck) -> None:
        super().__init__(Origin("http", "store", 80))
        self._world, self._luck = world, luck

    def _connected(self) -> Wire:
        return Toward(self._world, self._luck)


class Within:
    """The proxy, and its store."""

    def __init__(self, folder: Path) -> None:
        key_file = folder / "key.json"
        make_key_file(key_file)
        entries = parse_key_map(f"bkt:file:{key_file}")
        self.world, self.luck = World(), Luck()
        self.world.buckets["bkt"] = {}
        self.gate = Gateway(entries, KeyRing(entries.keys), _Memory(self.world, self.luck), Budget(16 << 20))
        self._socket = listening(("127.0.0.1", 0))
        self._server = Server(self._socket, lambda client: answer(self.gate, client))

    def say(self, came: bytes, pieces: int = 65536) -> bytes:
        """Returns all that comes back on a connection that brings these bytes and ends."""
        end = End(came, pieces)
        self._server.converse(end, self._server._answer)
        assert end.ended
        return bytes(end.out)

    def ask(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers by small names, and content of an answer."""
        told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        length = f"Content-Length: {len(body)}\r\n" if body or method in ("POST", "PUT") else ""
        came = self.say(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{told}{length}\r\n".encode() + body)
        head, _, content = came.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        return int(line.split(" ")[1]), fields, content

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """What lies in the store is the same after the block as before it, and nothing is known of it."""
        objects = self.world.buckets["bkt"]
        before = {name: replace(found, fields=copy.deepcopy(found.fields)) for name, found in objects.items()}
        self.gate._known.clear()
        self.gate._bad.clear()
        try:
            yield
            assert not self.gate.budget.used
        finally:
            self.luck.says = Luck().says
            objects.clear()
            objects.update(before)
            self.gate._known.clear()

    def close(self) -> None:
        """Frees what it has."""
        self._server.close()
        self._socket.close()


@contextmanager
def within(folder: Path) -> Iterator[Within]:
    """A proxy and its store while the block runs; buckets other than `bkt` are passed on."""
    made = Within(folder)
    try:
        yield made
    finally:
        made.close()
