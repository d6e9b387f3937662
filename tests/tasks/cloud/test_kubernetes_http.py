"""HTTP for following: answers are put together right wherever they are torn, and what is torn off is no answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.cloud.kubernetes_answer import Head
from tasks.cloud.kubernetes_http import Broken, Connection, Unconnected, connect

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    b"5\r\nhello\r\n1a;ext=1\r\nabcdefghijklmnopqrstuvwxyz\r\n1\r\n\n\r\n0\r\n\r\n"
)
LONG = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nConnection: close\r\n\r\nhello"
OPEN = b"HTTP/1.0 200 OK\r\n\r\nhello"
Result = TypeVar("Result")


class Pipe(asyncio.Transport):
    """The transport's end of a connection, for a test to play the server on."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        pass


async def get(connection: Connection, target: str, headers: Mapping[str, str]) -> Head:
    connection.ask(target, headers)
    return await connection.head()


async def played(pieces: Sequence[bytes], *, then_lost: bool = False) -> tuple[int, bytes, bool]:
    connection, pipe = Connection(), Pipe()
    connection.connection_made(pipe)
    asking = asyncio.create_task(get(connection, "/x?a=b", {"Host": "h"}))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    if then_lost:
        connection.connection_lost(None)
    head = await asking
    body = b"".join([part async for part in connection.body()])
    assert pipe.written == b"GET /x?a=b HTTP/1.1\r\nHost: h\r\n\r\n"
    return head.status, body, connection.reusable


@given(cuts=st.lists(st.integers(0, len(CHUNKED)), max_size=8))
def test_chunks_are_put_together_wherever_they_are_torn(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(CHUNKED)]
    pieces = [CHUNKED[a:b] for a, b in itertools.pairwise(places)]
    assert asyncio.run(played(pieces)) == (200, b"helloabcdefghijklmnopqrstuvwxyz\n", True)


def test_answers_of_a_length_and_up_to_the_end_are_read_too() -> None:
    assert asyncio.run(played([LONG])) == (404, b"hello", False)
    assert asyncio.run(played([OPEN], then_lost=True)) == (200, b"hello", False)


@pytest.mark.parametrize("whole", [CHUNKED, LONG])
def test_an_answer_that_ends_too_early_is_none(whole: bytes) -> None:
    for end in range(len(whole) - 1):
        with pytest.raises(Broken):
            asyncio.run(played([whole[:end]], then_lost=True))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        b"HTTP/1.1 xyz\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_what_is_no_http_is_told(nonsense: bytes) -> None:
    with pytest.raises(Broken, match="the answer is no HTTP"):
        asyncio.run(played([nonsense]))


def test_who_does_not_read_makes_the_server_wait() -> None:
    async def play() -> None:
        connection, pipe = Connection(), Pipe()
        connection.connection_made(pipe)
        asking = asyncio.create_task(get(connection, "/", {}))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
        await asking
        for _ in range(8):
            connection.data_received(b"x" * 65_536)
        assert not pipe.reading
        body = connection.body()
        assert len(await anext(body)) == 8 * 65_536
        assert pipe.reading

    asyncio.run(play())


def test_a_connection_asks_again_once_an_answer_is_read_and_not_after_it_was_lost() -> None:
    async def play() -> None:
        connection, pipe = Connection(), Pipe()
        connection.connection_made(pipe)
        for _ in range(2):
            asking = asyncio.create_task(get(connection, "/", {}))
            await asyncio.sleep(0)
            connection.data_received(CHUNKED)
            await asking  # its body is left unread, and must not come with the next one
        read = b"".join([part async for part in connection.body()])
        assert read == b"helloabcdefghijklmnopqrstuvwxyz\n"
        connection.connection_lost(None)
        assert not connection.reusable
        with pytest.raises(Broken):
            await get(connection, "/", {})

    asyncio.run(play())


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def with_server(handle: Handler, play: Callable[[int], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            return await play(server.sockets[0].getsockname()[1])

    return asyncio.run(main())


async def ask(connection: Connection) -> bytes:
    await get(connection, "/", {"Host": "x"})
    return b"".join([part async for part in connection.body()])


def test_a_proxy_is_asked_to_connect() -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)

    async def play(port: int) -> bytes:
        return await ask(await connect("http://api.test:6443", None, proxy=f"http://jan:p@127.0.0.1:{port}"))

    assert with_server(proxy, play).startswith(b"helloabc")
    assert asked[0].startswith(b"CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n")
    assert b"Proxy-Authorization: Basic amFuOnA=\r\n" in asked[0]


def test_a_proxy_that_does_not_connect_is_told() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    async def play(port: int) -> None:
        await connect("http://api.test", None, proxy=f"http://127.0.0.1:{port}")

    with pytest.raises(Unconnected, match="the proxy refused: HTTP/1.1 407"):
        with_server(proxy, play)
