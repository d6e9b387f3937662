"""Clients that stand still, or nearly, keep nothing that others wait for; those that nobody waits for go on."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runtime.gcs_proxy import buffers, server
from runtime.gcs_proxy import wire as wire_module
from runtime.gcs_proxy.wire import Wire
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, path, serving
from tests.waiting import PATIENCE_S, until

MIB = 1 << 20
CONTENT = random.Random(12).randbytes(2 * MIB)
LARGE = bytes(12 * MIB)
"""More than the kernel keeps for a connection whose other side does not read."""


@pytest.fixture
def narrow(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy with the least memory, which a few transfers have all of, and little patience."""
    monkeypatch.setattr(buffers, "_SLOW_S", 0.3)
    with serving(store.url, tmp_path, buffer_mib=4) as proxy:
        yield proxy


@contextlib.contextmanager
def connections(proxy: Proxy, count: int) -> Iterator[list[socket.socket]]:
    """Opens some that keep little of what comes."""
    parts = urlsplit(proxy.url)
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(60)
            sock.connect((parts.hostname, parts.port))
            made.append(sock)
        yield made


def test_of_what_is_sent_each_byte_counts_as_it_goes() -> None:
    """Who takes a large piece slowly does not stand still."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)  # as all of the proxy have one: without, a send waits for all of it
        wire = Wire(ours)
        sending = threading.Thread(target=wire.send, args=(LARGE,))
        sending.start()
        got = len(theirs.recv(MIB))
        until(lambda: wire.moved >= got)
        assert wire.waiting and wire.moved < len(LARGE)
        while got < len(LARGE):
            got += len(theirs.recv(MIB))
        sending.join(PATIENCE_S)
        assert wire.moved == len(LARGE)


def has_ended(sock: socket.socket) -> bool:
    sock.settimeout(0)
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def upload(bucket: str, size: int) -> bytes:
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=slow"
    return f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()


def test_writers_that_stop_do_not_keep_others_from_writing(narrow: Proxy, bucket: str) -> None:
    with connections(narrow, 8) as slow:
        for sock in slow:
            sock.sendall(upload(bucket, len(CONTENT)) + CONTENT[:1000])
        budget = narrow.budget
        assert budget is not None
        until(lambda: len(budget._loans) + budget.waiting == len(slow))
        assert narrow.upload(bucket, "x", CONTENT).status == 200
        assert narrow.read(bucket, "x").content == CONTENT
        assert 0 < len([sock for sock in slow if has_ended(sock)]) < len(slow), "more gave way than had to"
    assert narrow.read(bucket, "slow").status == 404


def test_writers_that_have_sent_nothing_yet_take_nothing(narrow: Proxy, bucket: str) -> None:
    with connections(narrow, 30) as slow:
        for sock in slow:
            sock.sendall(upload(bucket, 5))
        assert narrow.upload(bucket, "x", CONTENT).status == 200
        assert not any(map(has_ended, slow))
        slow[-1].setblocking(True)
        slow[-1].sendall(b"12345")
        assert slow[-1].recv(4096).startswith(b"HTTP/1.1 200")


def test_writers_of_single_bytes_give_way_too(narrow: Proxy, bucket: str) -> None:
    over = threading.Event()

    def trickle(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.sendall(upload(bucket, 1000))
            while not over.wait(0.02):
                sock.sendall(b"x")

    with connections(narrow, 8) as slow:
        threads = [threading.Thread(target=trickle, args=(sock,)) for sock in slow]
        for thread in threads:
            thread.start()
        try:
            assert narrow.upload(bucket, "x", CONTENT).status == 200
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_readers_that_stop_do_not_keep_others_from_reading(narrow: Proxy, bucket: str) -> None:
    narrow.upload(bucket, "large", LARGE)
    narrow.upload(bucket, "x", CONTENT)
    with connections(narrow, 16) as slow:
        for sock in slow:
            sock.sendall(f"GET {path(bucket, 'large')}?alt=media HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for _ in range(3):
            assert narrow.read(bucket, "x").content == CONTENT


def test_a_reader_that_nobody_waits_for_may_take_its_time(narrow: Proxy, bucket: str) -> None:
    narrow.upload(bucket, "large", LARGE)
    with contextlib.closing(http.client.HTTPConnection(urlsplit(narrow.url).netloc, timeout=60)) as slow:
        slow.request("GET", f"{path(bucket, 'large')}?alt=media")
        response = slow.getresponse()
        assert response.read(1) == b"\0"
        assert not threading.Event().wait(4 * buffers._SLOW_S)
        assert response.read() == LARGE[1:]


def heard_of_idle(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Returns what is released each time a connection begins to wait for a request, its first one or another."""
    idle, mark = threading.Semaphore(0), server.Server._mark

    def marked(at: server.Server, wire: Wire, *, busy: bool) -> None:
        mark(at, wire, busy=busy)
        if not busy:
            idle.release()

    monkeypatch.setattr(server.Server, "_mark", marked)
    return idle


def begin(sock: socket.socket, bucket: str) -> None:
    """Begins an upload, and returns when its bytes are waited for."""
    sock.settimeout(60)
    sock.sendall(upload(bucket, 5).replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert sock.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_the_connection_that_was_silent_for_longest_gives_way_to_a_new_one(
    store: Store, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs keep many connections for later: those who come then are not to be turned away."""
    monkeypatch.setattr(server, "CONNECTIONS", 3)
    idle = heard_of_idle(monkeypatch)
    with serving(store.url, tmp_path) as proxy, connections(proxy, 3) as kept:
        get = f"HEAD {path(bucket, 'none')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        assert all(idle.acquire(timeout=PATIENCE_S) for _ in kept)
        for sock in kept:
            sock.sendall(get)
            assert sock.recv(4096).startswith(b"HTTP/1.1 404")
            assert idle.acquire(timeout=PATIENCE_S), "silent it is a moment after its answer came"
        kept[0].sendall(get[:20])  # it has begun to ask, and goes on no more
        assert proxy.ask("GET", path(bucket, "none")).status == 404
        assert [has_ended(sock) for sock in kept] == [True, False, False]
        for sock in kept[1:]:
            begin(sock, bucket)
        with connections(proxy, 1) as (third,):
            begin(third, bucket)
            assert proxy.ask("GET", path(bucket, "none")).status == 503, (
                "one that is in its request was cut off"
            )
            kept[1].sendall(b"12345")
            assert kept[1].recv(4096).startswith(b"HTTP/1.1 200")


def test_a_head_that_does_not_come_to_its_end_is_given_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_module, "_HEAD_S", 0.1)
    with serving(store.url, tmp_path) as proxy, connections(proxy, 2) as (silent, dripping):
        silent.sendall(b"GET / HTTP")
        assert silent.recv(4096) == b""

        def goes_on() -> bool:
            with contextlib.suppress(ConnectionError):
                dripping.sendall(b"x")
                return not has_ended(dripping)
            return False

        until(lambda: not goes_on())


def test_a_new_connection_waits_for_nobodys_end(
    store: Store, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread accepts: while it waited for a silent connection to end, nobody else got in."""
    monkeypatch.setattr(server, "CONNECTIONS", 1)
    monkeypatch.setattr(Wire, "cut", lambda wire: None)  # it is told to end, and does not yet
    idle = heard_of_idle(monkeypatch)
    with serving(store.url, tmp_path) as proxy, connections(proxy, 1) as (silent,):
        assert idle.acquire(timeout=PATIENCE_S)
        with connections(proxy, 1) as (busy,):
            begin(busy, bucket)
            silent.sendall(f"HEAD {path(bucket, 'none')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert not silent.recv(4096), "a connection without a place had a request answered"
            assert proxy.ask("GET", path(bucket, "none")).status == 503, "a place was given twice"
            busy.sendall(b"12345")
            assert busy.recv(4096).startswith(b"HTTP/1.1 200")
