"""For tests of the proxy: one that runs in this process, and a client that says what it is told to say."""

from __future__ import annotations

import http.client
import json
import resource
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from runtime.contract.keymap import parse_key, parse_key_map
from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.authority import Authority, Published
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.forward import Forward
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.hosts import INTERCEPTED, parse_place
from runtime.gcs_proxy.keys import KeyRing, make_key_file
from runtime.gcs_proxy.serve import listening, url_of
from runtime.gcs_proxy.server import Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.upstream import Pool, parse_origin
from tests.runtime.gcs_proxy.test_seal import by_the_page


@dataclass
class Told:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def message(self) -> str:
        """What a refusal says, in the JSON API's form."""
        error = self.json["error"]
        assert error["code"] == self.status and error["errors"][0]["reason"]
        return str(error["message"])


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Proxy:
    """A running proxy, and what asks it."""

    def __init__(
        self, url: str, key_file: Path, clock: Clock | None = None, budget: Budget | None = None
    ) -> None:
        """`budget`: the memory of one that runs in this process."""
        self.url, self.key_file, self.clock = url, key_file, clock or Clock()
        self.budget = budget
        self.forward = ""
        """Where its forward face is; who trusts what is in `certificates` is served there."""
        self.certificates = key_file.parent
        self.said: list[dict[str, Any]] = []

    def ask(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Told:
        """Asks by a connection of its own."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)
        try:
            connection.request(method, target, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Told(response.status, response.headers, response.read())
        finally:
            connection.close()

    def upload(self, bucket: str, name: str, content: Any, query: str = "", **headers: str) -> Told:
        """Uploads an object in one request."""
        target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}{query}"
        told = {"Content-Type": "text/x", **{key.replace("_", "-"): value for key, value in headers.items()}}
        return self.ask("POST", target, content, told)

    def read(self, bucket: str, name: str, wanted: str | None = None, query: str = "") -> Told:
        """Reads an object, or a range of it."""
        headers = {} if wanted is None else {"Range": f"bytes={wanted}"}
        return self.ask("GET", f"{path(bucket, name)}?alt=media{query}", headers=headers)


def path(bucket: str, name: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"


@contextmanager
def serving(
    upstream: str, folder: Path, key_map: str = "", buffer_mib: int = 16, **more: Any
) -> Iterator[Proxy]:
    """Runs a proxy in this process; without a map all buckets have the key in `folder`/key.json."""
    key_file = folder / "key.json"
    if not key_file.exists():
        make_key_file(key_file)
    entries = parse_key_map((key_map or "*:KEY").replace("KEY", f"file:{key_file}"))
    ring = KeyRing(entries.keys, more.get("kms"), old=map(parse_key, more.get("old_keys", ())))
    clock = Clock()
    pool = Pool(parse_origin(upstream), more.get("ca"))
    gate = Gateway(entries, ring, pool, Budget(buffer_mib << 20), clock)
    gate.always_md5 = more.get("md5", False)
    listener, forward_listener = listening(("127.0.0.1", 0)), listening(("127.0.0.1", 0))
    proxy = Proxy(url_of(listener), key_file, clock, gate.budget)
    proxy.forward = url_of(forward_listener)
    authority = Authority(INTERCEPTED)
    proxy.certificates = folder / "certificates"
    Published(proxy.certificates, authority)
    allowed = [parse_place(text) for text in more.get("allowed", ())]
    forward = Forward(
        gate, authority, allowed, say=lambda event, **told: proxy.said.append({"event": event, **told})
    )
    servers = [
        Server(listener, lambda client: answer(gate, client)),
        Server(forward_listener, forward.answer),
    ]
    threads = [threading.Thread(target=server.serve) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield proxy
    finally:
        for server in servers:
            server.stop(0)
        for thread in threads:
            thread.join()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process takes more than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def decrypted(proxy: Proxy, sealed: bytes, told: Mapping[str, Any]) -> bytes:
    """Returns the plaintext of an object, by what docs/gcs_proxy.md shows."""
    found = envelope.read(told["metadata"])
    size = found.layout.segment_bytes
    key = by_the_page("unwrap")(
        found.wrapped_key,
        proxy.key_file.read_text(),
        size,
        found.object_id,
        told["bucket"],
        told["name"],
    )
    return by_the_page("decrypt")(sealed, key, found.object_id, size)  # type: ignore[no-any-return]
