"""Many reads of one API server at once, within an event loop: lists, watches and logs, and how long to go on trying."""

from __future__ import annotations

import asyncio
import random
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import DecodeError
from msgspec.json import decode

from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.kubernetes_access import CONNECT_S, HEADERS, Access, socket_options
from tasks.cloud.kubernetes_answer import Head
from tasks.cloud.kubernetes_errors import KubernetesError, Unavailable, Unreachable
from tasks.cloud.kubernetes_http import Broken, Connection, Silent, Unconnected, connect
from tasks.cloud.kubernetes_transport import refusal, untrusted
from tasks.cloud.waits import waiting

_AT_ONCE = 64
"""Connections that may be coming about: a server that has just come back is not to be asked for a thousand at once."""
_ANSWER_S = 30.0
_IDLE_S = 10.0
"""How long a connection that nobody uses is kept: the log of a container that ended is soon asked for once more."""


@dataclass(frozen=True)
class Patience:
    """Seconds: how long a server may be away, or refuse us, once it had answered; pauses between tries; how long
    nothing may come before a connection that should bring something is opened anew (less for a watch, of which a
    server says each minute how far it is), and before the server is asked whether it is there.
    """

    away_s: float = 1800.0
    refused_s: float = 120.0
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    silence_s: float = 600.0
    watch_silence_s: float = 90.0
    pulse_s: float = 5.0


class Silence(Unavailable):
    """Nothing came for long. Where there may be nothing to say that is no failure."""


class Link:
    """The connections of one follower, within `async with`.

    `notice` is told why nothing is answered, once that lasts, and with an empty text that it is over.
    """

    def __init__(
        self, access: Access, patience: Patience, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        self.access, self.patience, self._notice = access, patience, notice
        self._context, self._proxy = access.context(), access.via()
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._helpers: list[asyncio.Task[None]] = []
        self._came_at = 0.0
        self._failing_since: float | None = None
        self._told = False

    async def __aenter__(self) -> Link:
        self._came_at = asyncio.get_running_loop().time()
        self._helpers = [asyncio.create_task(one) for one in (self._sweep(), self._feel_pulse())]
        return self

    async def __aexit__(self, *error: object) -> None:
        for helper in self._helpers:
            helper.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._idle = []

    def trial(self, *, served: bool = False) -> Trial:
        """Returns what keeps count of one reader's failures; `served`: it is known that this can be answered."""
        return Trial(self, served)

    async def json(self, doing: str, path: str, params: Mapping[str, str | int]) -> Any:
        """Returns an answer that is JSON, asked for once."""
        async with self.stream(doing, path, params) as answer, asyncio.timeout(_ANSWER_S):
            content = b"".join([part async for part in answer.body()])
        try:
            return decode(content)
        except DecodeError as error:
            raise Unavailable(f"cannot {doing} in {self.access.name}: the answer is no JSON") from error

    @asynccontextmanager
    async def stream(
        self,
        doing: str,
        path: str,
        params: Mapping[str, str | int],
        *,
        answer_s: float | None = _ANSWER_S,
        silence_s: float | None = None,
        opened: Callable[[Connection], None] = lambda connection: None,
    ) -> AsyncIterator[Connection]:
        """Asks once; the block reads the answer as it comes. Raises KubernetesError, also from within the block.

        `answer_s`: within what time the answer must begin; None: whenever. `silence_s`: how long nothing may come of it
        then; None: as the patience says. `opened` is called with the connection once it was asked.
        """
        called = f"{doing} ({self.access.name})"
        with calling("kubernetes", called) as call:
            target, connection = path + ("?" + urlencode(params) if params else ""), None
            try:
                with waiting(f"kubernetes: {called}", answer_s):
                    async with asyncio.timeout(answer_s):
                        connection, head = await self._asked(target, opened)
                        if head.status != 200:
                            content = b"".join([part async for part in connection.body()])
                            raise refusal(head.status, content, head.headers, doing, self.access)
                self.worked()
                connection.silent_for = silence_s
                yield connection
                call.result = "read to its end"
            except (Broken, TimeoutError) as error:
                raise self._lost(error, doing) from error
            finally:
                if connection is not None:
                    self._keep(connection)

    async def _asked(self, target: str, opened: Callable[[Connection], None]) -> tuple[Connection, Head]:
        refused = False
        while True:
            headers = await self._headers(refused)
            async with self._gate:
                connection = await self._connection()
            self._busy.add(connection)
            try:
                connection.ask(target, headers)
                opened(connection)
                head = await connection.head()
            except BaseException:
                self._keep(connection)
                raise
            if head.status != 401 or refused or self.access.tokens is None:
                return connection, head
            connection.close()
            self._keep(connection)
            refused = True

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
        async with asyncio.timeout(CONNECT_S):
            return await connect(
                self.access.server, self._context, self.access.server_name, self._proxy, socket_options()
            )

    def _keep(self, connection: Connection) -> None:
        self._busy.discard(connection)
        self._came_at = max(self._came_at, connection.came_at)
        connection.silent_for = None
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()

    async def _headers(self, refused: bool) -> dict[str, str]:
        headers = {"Host": urlsplit(self.access.server).netloc.rpartition("@")[2], **HEADERS}
        if self.access.tokens is not None:
            headers["Authorization"] = f"Bearer {await asyncio.to_thread(self.access.tokens, refused)}"
        elif self.access.login is not None:
            headers["Authorization"] = f"Basic {b64encode(':'.join(self.access.login).encode()).decode()}"
        return headers

    def _lost(self, error: Exception, doing: str) -> KubernetesError:
        what = f"cannot {doing} in {self.access.name} ({self.access.server}): "
        if found := untrusted(error, what):
            return found
        if isinstance(error, Silent):
            return Silence(f"{what}{error}")
        if isinstance(error, Unconnected):
            return Unreachable(f"{what}no connection ({error}): is the cluster up, and reachable from here?")
        return Unavailable(f"{what}{str(error) or 'no answer in time'}; {UNANSWERED}")

    async def _sweep(self) -> None:
        """Ends connections on which nothing has come for long: the other end may be gone without a word."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(_IDLE_S, self.patience.silence_s / 10))
            for connection in list(self._busy):
                silence_s = connection.silent_for or self.patience.silence_s
                if connection.heard_at < clock() - silence_s:
                    connection.close(f"nothing came for {silence_s:g} s")
            for connection in [one for one in self._idle if one.heard_at < clock() - _IDLE_S]:
                self._idle.remove(connection)
                connection.close()

    # Whether the server is there

    @property
    def unheard_s(self) -> float:
        """How long something must fail before it is worth a word."""
        return 2 * self.patience.longest_pause_s

    async def _feel_pulse(self) -> None:
        """Asks whether the server is there when nothing has come for a while: one that is gone without a word is as
        silent as one that has nothing to say.
        """
        clock, pulse_s = asyncio.get_running_loop().time, self.patience.pulse_s
        while True:
            last = max([self._came_at, *(one.came_at for one in self._busy)])
            if (left_s := last + pulse_s - clock()) > 0:
                await asyncio.sleep(left_s)
                continue
            doing = "see whether it answers"
            try:
                async with (
                    asyncio.timeout(2 * pulse_s),
                    self.stream(doing, "/version", {}, answer_s=pulse_s) as it,
                ):
                    async for _ in it.body():
                        pass
            except TimeoutError as error:
                self.failed(self._lost(error, doing), since_s=clock() - last)
            except KubernetesError as error:
                if error.answered:
                    self.worked()
                else:
                    self.failed(error, since_s=clock() - last)
            await asyncio.sleep(pulse_s / 5)

    def worked(self) -> None:
        """Something was answered."""
        since, self._failing_since = self._failing_since, None
        if self._told and since is not None:
            self._told = False
            self._notice("")
            # What was open before may be so at our end alone.
            before = asyncio.get_running_loop().time() - (time.monotonic() - since)
            for connection in [one for one in self._busy if one.heard_at <= before]:
                connection.close("nothing came since before the server was away")

    def failed(self, error: KubernetesError, since_s: float = 0.0) -> None:
        """Nothing was answered, or not what was asked for; for `since_s` seconds by now."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now - since_s
        if not self._told and now - self._failing_since > self.unheard_s:
            self._told = True
            self._notice(str(error))


class Trial:
    """One reader's failures in a row, and what they mean for whether and when it tries again."""

    def __init__(self, link: Link, served: bool) -> None:
        self._link = link
        self.served = served
        """Whether it was ever answered."""
        self.failures = 0
        """How many in a row."""
        self._since = 0.0

    def passed(self) -> None:
        """It was answered."""
        self.served, self.failures = True, 0

    @property
    def failing_s(self) -> float:
        """For how long it has failed."""
        return time.monotonic() - self._since if self.failures else 0.0

    async def failed(self, error: KubernetesError, *, alone: bool = False) -> None:
        """Waits before the next try, or raises the error: when it was never answered and this will not pass, or when
        there is no more patience. `alone`: it says nothing of the server as a whole.

        A server that starts anew may for a while not know its kinds, or who may what; so once it was answered all but
        its being away for very long may pass.
        """
        patience, now = self._link.patience, time.monotonic()
        if not alone:
            self._link.failed(error)
        self.failures += 1
        self._since = now if self.failures == 1 else self._since
        limit = patience.away_s if isinstance(error, Unavailable) else patience.refused_s
        if now - self._since > limit or not (self.served or isinstance(error, Unavailable)):
            raise error
        pause = min(patience.first_pause_s * 2 ** min(self.failures - 1, 16), patience.longest_pause_s)
        await asyncio.sleep(max(error.after_s or 0.0, pause * random.uniform(0.5, 1.0)))
