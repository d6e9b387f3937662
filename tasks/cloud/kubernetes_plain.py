"""Requests to an API server by the standard library alone: for commands that make a few and end.

httpx takes longer to import than such a command has in all. What it does better (proxies, other names in certificates)
is left to it: see `plain_enough`.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

from tasks.cloud.calls import calling
from tasks.cloud.kubernetes_access import CONNECT_S, HEADERS, Access, socket_options
from tasks.cloud.kubernetes_errors import KubernetesError, Unavailable, Unreachable, shortened
from tasks.cloud.kubernetes_transport import Ask, Wire, refusal, untrusted, without_nulls
from tasks.cloud.timing import Timing

_UNTOLD = 401


def plain_enough(access: Access) -> bool:
    """Whether a server is reached straight, under its own name."""
    return not access.server_name and access.via() is None


class PlainWire(Wire):
    """See Wire. One connection, kept open; not for several threads."""

    def __init__(self, access: Access, timing: Timing) -> None:
        super().__init__(access, timing)
        self._parts = urlsplit(access.server)
        self._open: http.client.HTTPConnection | None = None

    def _send(self, ask: Ask) -> bytes:
        with calling("kubernetes", f"{ask.doing} ({self.access.name})") as call:
            code, headers, body = self._answer(ask, refused=False)
            if code == _UNTOLD and self.access.tokens is not None:
                code, headers, body = self._answer(ask, refused=True)
            call.result = str(code)
        if 200 <= code < 300:
            return body
        raise refusal(code, body, headers, ask.doing, self.access)

    def _answer(self, ask: Ask, *, refused: bool) -> tuple[int, Mapping[str, str], bytes]:
        told = None if ask.body is None else json.dumps(without_nulls(ask)).encode()
        path = f"{self._parts.path.rstrip('/')}{ask.path}"
        if ask.params:
            path += f"?{urlencode({key: _text(value) for key, value in ask.params.items()})}"
        headers = {**HEADERS, **self._login(refused)}
        if told is not None:
            headers["Content-Type"] = ask.content
        connection = self._connection(ask.doing)
        try:
            connection.request(ask.method, path, told, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._close()
            what = f"cannot {ask.doing} in {self.access.name} ({self.access.server}): "
            slow = "no answer in time" if isinstance(error, TimeoutError) else "the connection broke"
            raise Unavailable(f"{what}{slow} ({shortened(_words(error))})") from error

    def _connection(self, doing: str) -> http.client.HTTPConnection:
        """Returns the open connection, or a new one that has its other end: nothing was asked for if it fails."""
        if self._open is not None and self._open.sock is not None:
            return self._open
        host, port = self._parts.hostname or "", self._parts.port
        if trust := self.access.context():
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port or 443, timeout=CONNECT_S, context=trust
            )
        else:
            made = http.client.HTTPConnection(host, port or 80, timeout=CONNECT_S)
        try:
            made.connect()
        except OSError as error:
            raise self._no_connection(error, doing) from error
        made.sock.settimeout(self.timing.try_s)
        for option in socket_options():
            with suppress(OSError):
                made.sock.setsockopt(*option)
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open = made
        return made

    def _no_connection(self, error: OSError, doing: str) -> KubernetesError:
        what = f"cannot {doing} in {self.access.name} ({self.access.server}): "
        return untrusted(error, what) or Unreachable(
            f"{what}no connection ({shortened(_words(error))}): is the cluster up, and reachable from here?"
        )

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def _login(self, refused: bool) -> dict[str, str]:
        if self.access.tokens is not None:
            return {"Authorization": f"Bearer {self.access.tokens(refused)}"}
        if self.access.login is not None:
            word = base64.b64encode(":".join(self.access.login).encode()).decode()
            return {"Authorization": f"Basic {word}"}
        return {}


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
