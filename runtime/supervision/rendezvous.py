"""How supervisors find each other: 0 listens, the others connect, both prove that they know the job's token."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from runtime.contract.errors import InfrastructureError
from runtime.supervision.messages import Alive, Message, dump, load

_ALIVE_EVERY_S = 2.0
_SILENT_S = 30.0
"""A supervisor that said nothing for so long is lost: stopped, or its host or network is gone."""

_HANDSHAKE_S = 5.0
_RETRY_S = 0.2
_LONGEST_LINE = 8 << 20


class Connection:
    """One proven connection to another supervisor; says every two seconds that this one is alive.

    `attempt` is which one it is, as supervisor 0 says.
    """

    def __init__(self, sock: socket.socket, attempt: int) -> None:
        self.attempt = attempt
        self._socket = sock
        self._sending = threading.Lock()
        self._closed = False

    def serve(self, on_message: Callable[[Message], None], on_lost: Callable[[str], None]) -> None:
        """Starts to listen, in threads of its own. `on_lost` is called once, unless `close` came first."""
        self._socket.settimeout(_SILENT_S)
        threading.Thread(target=self._receive, args=(on_message, on_lost), daemon=True).start()
        threading.Thread(target=self._tell_alive, daemon=True).start()

    def send(self, message: Message) -> None:
        """Sends a message. A broken connection is no error here: `on_lost` tells of it."""
        with self._sending, contextlib.suppress(OSError):
            self._socket.sendall(dump(message))

    def close(self) -> None:
        """Ends the connection after what was sent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _receive(self, on_message: Callable[[Message], None], on_lost: Callable[[str], None]) -> None:
        why = "its connection closed"
        try:
            with self._socket.makefile("rb") as lines:
                while line := lines.readline(_LONGEST_LINE):
                    message = load(line)
                    if not isinstance(message, Alive):
                        on_message(message)
        except TimeoutError:
            why = f"it said nothing for {_SILENT_S:g} s"
        except OSError as error:
            why = f"its connection broke: {error.strerror or error}"
        except ValueError as error:
            why = f"it sent what is no message ({error})"
        if not self._closed:
            on_lost(why)

    def _tell_alive(self) -> None:
        while not self._closed:
            self.send(Alive())
            time.sleep(_ALIVE_EVERY_S)


class Arrival(Protocol):
    """Is told that a worker's supervisor has proven itself."""

    def __call__(self, worker: int, connection: Connection) -> None: ...


class Listener:
    """Listens at supervisor 0's address until closed. Raises InfrastructureError when the address is not free."""

    def __init__(self, address: str, token: str, attempt: int, on_arrival: Arrival) -> None:
        self._token, self._attempt, self._on_arrival = token, attempt, on_arrival
        try:
            self._server = socket.create_server(split(address), reuse_port=False)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            fix = (
                "another program uses it: start again with another port"
                if taken
                else "see that it is this host's"
            )
            raise InfrastructureError(
                f"cannot listen at {address} for the other workers: {error}; {fix}"
            ) from error
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stops listening; connections stay."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        try:
            sock.settimeout(_HANDSHAKE_S)
            challenge = secrets.token_hex(16)
            _send(sock, {"challenge": challenge})
            hello = _read(sock)
            worker, theirs = int(hello["worker"]), str(hello["challenge"])
            proof = _proof(self._token, "join", challenge, theirs, worker)
            if not hmac.compare_digest(proof, str(hello["proof"])):
                _send(sock, {"refused": "it knows another token: it belongs to another run"})
                sock.close()
                return
            proof = _proof(self._token, "welcome", theirs, challenge, self._attempt)
            _send(sock, {"proof": proof, "attempt": self._attempt})
        except (OSError, ValueError, KeyError, TypeError):
            sock.close()  # a port scanner, or a supervisor that died: one that matters comes again
            return
        self._on_arrival(worker, Connection(sock, self._attempt))


def join(address: str, token: str, worker: int, limit_s: float | None) -> Connection:
    """Connects to supervisor 0, trying until it answers. Raises InfrastructureError after `limit_s` seconds."""
    until = None if limit_s is None else time.monotonic() + limit_s
    refusal: Exception | None = None
    while True:
        try:
            return _introduce(socket.create_connection(split(address), _HANDSHAKE_S), token, worker)
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, ValueError):
                refusal = error  # says more than that nobody listens any longer
            if until is not None and time.monotonic() > until:
                why = refusal or error
                raise InfrastructureError(
                    f"supervisor 0 did not answer at {address} within {limit_s:g} s: {why}"
                ) from error
        time.sleep(_RETRY_S)


def free_address(address: str) -> str:
    """Returns the host of `address` with a port that is free now."""
    host = split(address)[0]
    with socket.create_server((host, 0)) as server:
        port = server.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Returns host and port of `host:port` or `[v6]:port`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _introduce(sock: socket.socket, token: str, worker: int) -> Connection:
    try:
        sock.settimeout(_HANDSHAKE_S)
        challenge = str(_read(sock)["challenge"])
        mine = secrets.token_hex(16)
        proof = _proof(token, "join", challenge, mine, worker)
        _send(sock, {"worker": worker, "challenge": mine, "proof": proof})
        answer = _read(sock)
        if "refused" in answer:
            raise ValueError(f"refused: {answer['refused']}")
        attempt = int(answer.get("attempt", 0))
        proof = _proof(token, "welcome", mine, challenge, attempt)
        if not hmac.compare_digest(proof, str(answer["proof"])):
            raise ValueError("what listens there does not know this run's token")
    except BaseException:
        sock.close()
        raise
    return Connection(sock, attempt)


def _proof(token: str, *parts: object) -> str:
    text = "|".join(str(part) for part in parts)
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _send(sock: socket.socket, content: dict[str, Any]) -> None:
    sock.sendall(json.dumps(content).encode() + b"\n")


def _read(sock: socket.socket) -> dict[str, Any]:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = sock.recv(1)  # byte by byte: what follows the line belongs to the messages
        if not byte or len(line) > 4096:
            raise ValueError("what is there does not speak as a supervisor does")
        line += byte
    content = json.loads(line)
    if not isinstance(content, dict):
        raise ValueError("what is there does not speak as a supervisor does")
    return content
