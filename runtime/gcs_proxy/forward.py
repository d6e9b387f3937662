"""The forward face, for programs that know a proxy alone, by https_proxy: it stands in for Cloud Storage."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Sequence

from runtime.gcs_proxy.authority import Authority
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.hosts import (
    APIS,
    STORAGE,
    Place,
    check_allowed,
    is_intercepted,
    parse_target,
)
from runtime.gcs_proxy.passing import pass_through
from runtime.gcs_proxy.peers import Peers
from runtime.gcs_proxy.refusal import Refused, invalid, unavailable
from runtime.gcs_proxy.routes import RESERVED, Route, route
from runtime.gcs_proxy.server import IDLE_S, Answer, Client, Converse
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.tunnel import tunnel
from runtime.gcs_proxy.upstream import CONNECT_S, GOOGLE, Pool, parse_origin
from runtime.gcs_proxy.wire import Headers, Wire

_HANDSHAKE_S = 30.0
_POOLS = 64


class Forward:
    """Answers CONNECT. Threads share it."""

    def __init__(
        self,
        gate: Gateway,
        authority: Authority,
        allowed: Sequence[Place],
        watch: Callable[[Client, Answer], None] = lambda client, answer: answer(client),
        say: Callable[..., None] = lambda event, **more: None,
        peers: Peers | None = None,
    ) -> None:
        """`watch` has each request answered that comes within a connection; `say` tells of connections that failed."""
        self._gate, self._authority, self._allowed = gate, authority, allowed
        self._watch, self._say, self._peers = watch, say, peers
        self._lock, self._pools = threading.Lock(), dict[str, Pool]()

    def answer(self, client: Client) -> None:
        """Answers what a program asks of its proxy. Raises Refused, Closed."""
        request = client.request
        if request.method != "CONNECT":
            raise Refused(
                403,
                "forbidden",
                "this proxy takes CONNECT alone: set https_proxy and not http_proxy, and what speaks HTTP without TLS "
                "goes to its host itself",
            )
        client.about = Route("connect")
        host, port = parse_target(request.target)
        if client.wire.pending or not client.body.ended:
            client.keep = False
            raise invalid("there is something behind CONNECT, before it was answered")
        if is_intercepted(host) and port == 443:
            client.after = functools.partial(self._intercept, host)
        else:
            check_allowed(host, port, self._allowed)
            client.after = functools.partial(_carry, _connected(host, port))
        client.begin(200, [], None, "Connection established")

    def _intercept(self, host: str, wire: Wire, converse: Converse) -> None:
        wire.sock.settimeout(_HANDSHAKE_S)
        try:
            tls = self._authority.context(host).wrap_socket(wire.sock, server_side=True)
        except OSError as error:
            self._say("handshake", host=host, why=f"the program does not trust this proxy, or ended: {error}")
            return
        tls.settimeout(IDLE_S)
        within = functools.partial(self._within, host)
        converse(Wire(tls), lambda client: self._watch(client, within))

    def _within(self, host: str, client: Client) -> None:
        """Answers a request to a host that is stood in for. Raises Refused, BadMessage, Closed."""
        client.scheme = "https"
        request = client.request
        if request.headers.get("host").lower().removesuffix(":443").removesuffix(".") != host:
            raise invalid(f"the request is to another host than the connection, which is to {host}")
        if host == APIS and (about := route(request.method, request.target)).xml:
            client.about = about
            self._pass(client, host)
        elif host in (APIS, STORAGE):
            answer(self._gate, client, self._peers)
        else:
            self._of_bucket(client, host)

    def _of_bucket(self, client: Client, host: str) -> None:
        """Answers what goes to a bucket's own host, where every path is an object's name."""
        bucket, request = host.removesuffix(f".{STORAGE}"), client.request
        client.xml = True
        if not request.target.startswith("/") or bucket in RESERVED:
            raise invalid("the request's target is no path, or its host no bucket's")
        own = request.target
        request.target = f"/{bucket}{own}"
        if self._gate.key_map.touches(bucket) or self._stand_in:
            others = request.headers.without(("host",))
            request.headers = Headers([("Host", STORAGE), *others])  # where the path begins with the bucket
            answer(self._gate, client, self._peers)
            return
        client.about = route(request.method, request.target)
        request.target = own
        self._pass(client, host)

    def _pass(self, client: Client, host: str) -> None:
        """Passes on what is not about Cloud Storage, or about a bucket without keys, to the host it is for."""
        if self._stand_in:
            raise invalid(
                f"{host} is not asked for anything else where --upstream stands in for Cloud Storage"
            )
        with self._lock:
            while len(self._pools) >= _POOLS and host not in self._pools:
                self._pools.pop(next(iter(self._pools)))
            pool = self._pools.get(host) or self._gate.pool.at(host)
            self._pools[host] = pool
        pass_through(self._gate.toward(pool), client)

    @property
    def _stand_in(self) -> bool:
        return self._gate.pool.origin != parse_origin(GOOGLE)


def _connected(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host.strip("[]"), port), CONNECT_S)
    except OSError as error:
        raise unavailable(f"{host}:{port} cannot be reached: {error}") from error


def _carry(there: socket.socket, wire: Wire, converse: Converse) -> None:
    del converse
    with there:
        tunnel(wire.sock, there, IDLE_S)
