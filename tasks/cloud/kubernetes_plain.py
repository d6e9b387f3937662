"""Requests to an API server over a socket: for commands that make a few and end.

httpx takes longer to import than such a command has in all. What it does better (proxies, other names in certificates)
is left to it: see `plain_enough`.
"""

from __future__ import annotations

import base64
import json
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.kubernetes_access import CONNECT_S, HEADERS, Access, socket_options
from tasks.cloud.kubernetes_answer import Answer, Head
from tasks.cloud.kubernetes_errors import KubernetesError, Unavailable, Unreachable, shortened
from tasks.cloud.kubernetes_transport import Ask, Wire, refusal, untrusted, without_nulls
from tasks.cloud.timing import Timing

_UNTOLD = 401
_PIECE = 64 << 10


def plain_enough(access: Access) -> bool:
    """Whether a server is reached straight, under its own name."""
    return not access.server_name and access.via() is None


class PlainWire(Wire):
    """See Wire. One connection, kept open; not for several threads."""

    def __init__(self, access: Access, timing: Timing) -> None:
        super().__init__(access, timing)
        self._parts = urlsplit(access.server)
        self._open: socket.socket | None = None

    def _send(self, ask: Ask) -> bytes:
        with calling("kubernetes", self.called(ask), self.timing.try_s) as call:
            head, body = self._answer(ask, refused=False)
            if head.status == _UNTOLD and self.access.tokens is not None:
                head, body = self._answer(ask, refused=True)
            call.result = str(head.status)
            self.heard(head.headers.get("date"))
            if warning := head.headers.get("warning"):
                call.result += f", warning: {shortened(warning)}"
        if 200 <= head.status < 300:
            return body
        raise refusal(head.status, body, head.headers, ask.doing, self.access)

    def _answer(self, ask: Ask, *, refused: bool) -> tuple[Head, bytes]:
        request = self._request(ask, refused)
        connection = self._connection(ask.doing)
        answer = Answer()
        answer.expect()
        try:
            connection.sendall(request)
            while not answer.whole:
                if data := connection.recv(_PIECE):
                    answer.take(data)
                elif not answer.closed():
                    raise ConnectionResetError("it was closed")
        except (OSError, ValueError) as error:
            self._close()
            what = f"cannot {ask.doing} in {self.access.name} ({self.access.server}): "
            slow = "no answer in time" if isinstance(error, TimeoutError) else "the connection broke"
            raise Unavailable(f"{what}{slow} ({shortened(_words(error))}); {UNANSWERED}") from error
        if not answer.stays:
            self._close()
        assert answer.got is not None
        return answer.got, answer.taken()

    def _request(self, ask: Ask, refused: bool) -> bytes:
        """Returns a request as it is sent, head and body at once."""
        path = f"{self._parts.path.rstrip('/')}{ask.path}"
        if ask.params:
            path += f"?{urlencode({key: _text(value) for key, value in ask.params.items()})}"
        headers = {"Host": self._parts.netloc.rpartition("@")[2], **HEADERS, **self._login(refused)}
        body = b""
        if ask.body is not None:
            body = json.dumps(without_nulls(ask)).encode()
            headers |= {"Content-Type": ask.content, "Content-Length": str(len(body))}
        lines = [f"{ask.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def _connection(self, doing: str) -> socket.socket:
        """Returns the open connection, or a new one that has its other end: nothing was asked for if it fails."""
        if self._open is not None:
            return self._open
        host, trust = self._parts.hostname or "", self.access.context()
        # For text Python would import what encodes names in other alphabets.
        name: Any = host.encode() if host.isascii() else host
        try:
            made = socket.create_connection((name, self._parts.port or (443 if trust else 80)), CONNECT_S)
            for option in (*socket_options(), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)):
                with suppress(OSError):
                    made.setsockopt(*option)
            self._open = trust.wrap_socket(made, server_hostname=name) if trust else made
        except OSError as error:
            raise self._no_connection(error, doing) from error
        self._open.settimeout(self.timing.try_s)
        return self._open

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
