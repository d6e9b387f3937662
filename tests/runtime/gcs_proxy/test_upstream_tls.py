"""A store that is reached over TLS, as Cloud Storage is: who it is is verified, its connections are used again."""

from __future__ import annotations

import asyncio
import random
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runtime.gcs_proxy.wire import Wire
from tests.cloud.authority import Authority
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import serving
from tests.runtime.gcs_proxy.test_serve import told
from tests.waiting import PATIENCE_S

LARGE = random.Random(7).randbytes(9_000_000)
"""More than lies in buffers on the way: the store's answer comes while it is sent."""


class Front:
    """Speaks TLS for a store; `made`: how many connections it took."""

    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        self._store, self._context = urlsplit(url), context
        self.made, self.url = 0, ""

    async def begin(self) -> asyncio.Server:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=self._context)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        there = await asyncio.open_connection(self._store.hostname, self._store.port)
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer), return_exceptions=True)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


@contextmanager
def over_tls(store: Store, folder: Path, name: str = "api") -> Iterator[Front]:
    """Serves a store over TLS, with a certificate for `name` by the authority in `folder`/ca.pem."""
    Authority().furnish(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    loop, front = asyncio.new_event_loop(), Front(store.url, context)
    server = loop.run_until_complete(front.begin())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield front
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_objects_go_up_and_down_and_a_connection_serves_many_requests(
    store: Store, bucket: str, tmp_path: Path
) -> None:
    with over_tls(store, tmp_path) as front, serving(front.url, tmp_path, ca=tmp_path / "ca.pem") as proxy:
        for number in range(5):
            assert proxy.upload(bucket, f"small/{number}", b"12345").json["size"] == "5"
            assert proxy.read(bucket, f"small/{number}", "1-2").content == b"23"
        assert proxy.upload(bucket, "x", LARGE).json["size"] == str(len(LARGE))
        assert proxy.read(bucket, "x").content == LARGE
        assert proxy.read(bucket, "x", "4000000-4000009").content == LARGE[4_000_000:4_000_010]
        assert proxy.upload(bucket, "x", LARGE, "&ifGenerationMatch=0").status == 412
        assert proxy.read(bucket, "x", "-9").content == LARGE[-9:]
        begin = proxy.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=y", b"{}")
        place = begin.headers["Location"].removeprefix(proxy.url)
        chunk = {"Content-Range": f"bytes 0-{(1 << 20) - 1}/*"}
        assert proxy.ask("PUT", place, LARGE[: 1 << 20], chunk).status == 308
        rest = LARGE[1 << 20 : 3 << 20]
        chunk = {"Content-Range": f"bytes {1 << 20}-{(3 << 20) - 1}/{3 << 20}"}
        assert proxy.ask("PUT", place, rest, chunk).status == 200
        assert proxy.read(bucket, "y").content == LARGE[: 3 << 20]
        assert front.made <= 10, "two for a read, one more after an upload that was refused; not one for each"


def test_a_certificate_for_another_host_is_not_believed(store: Store, bucket: str, tmp_path: Path) -> None:
    """Though an authority that is trusted signed it."""
    before = len(store.calls())
    with over_tls(store, tmp_path, "other") as front:
        with serving(front.url, tmp_path, ca=tmp_path / "ca.pem") as proxy:
            answer = proxy.upload(bucket, "x", b"12345")
        assert answer.status == 503 and "certificate verify failed" in answer.message
        assert front.made == 0
    assert len(store.calls()) == before


def test_tickets_that_come_behind_the_handshake_are_no_answer(tmp_path: Path) -> None:
    """Else an upload that begins just then would be taken for one that the store had refused."""
    Authority().furnish(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.num_tickets = 1
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    ours.settimeout(PATIENCE_S)
    with ours, theirs, ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(context.wrap_socket, theirs, server_side=True)
        with trusting.wrap_socket(ours, server_hostname="api") as tls, accepted.result() as store:
            assert select.select([tls], [], [], PATIENCE_S)[0], "no ticket came: this proves nothing"
            wire = Wire(tls)
            assert not wire.readable()
            store.sendall(b"HTTP/1.1 412 ")
            assert select.select([tls], [], [], PATIENCE_S)[0]
            assert wire.readable() and wire.read_some() == b"HTTP/1.1 412 "
            assert not wire.readable()
            store.shutdown(socket.SHUT_RDWR)
            assert select.select([tls], [], [], PATIENCE_S)[0]
            assert wire.readable(), "it ended"


@pytest.mark.parametrize("more", [[], ["--upstream-ca"]])
def test_an_authority_that_is_told_is_trusted(
    store: Store, bucket: str, tmp_path: Path, more: list[str]
) -> None:
    """As the option has it, and without it it is not."""
    with over_tls(store, tmp_path) as front:
        words = [*more, *([str(tmp_path / "ca.pem")] if more else [])]
        ca = told("--no-encryption", "--upstream", front.url, *words).upstream_ca
        with serving(front.url, tmp_path, ca=ca) as proxy:
            assert proxy.upload(bucket, "x", b"12345").status == (200 if more else 503)
