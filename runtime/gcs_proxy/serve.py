"""Serves the proxy: listens, and ends when it is told to."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.admin import Admin
from runtime.gcs_proxy.authority import Authority, Published
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.forward import Forward
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.hosts import INTERCEPTED, is_store
from runtime.gcs_proxy.keys import KeyRing
from runtime.gcs_proxy.login import Login, refuse_pages
from runtime.gcs_proxy.observing import Log, Observer
from runtime.gcs_proxy.options import OWN, Settings
from runtime.gcs_proxy.peers import Peers, for_peers
from runtime.gcs_proxy.processes import TOLD, block_signals, run_several
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.server import Answer, Client, Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.session_store import Sessions
from runtime.gcs_proxy.upstream import Pool, parse_origin

_GRACE_S = 10.0
_BACKLOG = 512
_TRUSTED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "grpc_proxy")


@dataclass(frozen=True)
class Sockets:
    """Where the proxy listens; `peers` is one port for each of several processes."""

    reverse: socket.socket
    admin: socket.socket | None
    forward: socket.socket | None
    peers: list[socket.socket]


def serve(told: Settings) -> NoReturn:
    """Serves until SIGTERM or SIGINT; requests under way have a few seconds then. Raises BadInput."""
    sockets = Sockets(
        listening(told.listen),
        listening(told.admin) if told.admin else None,
        listening(told.forward.listen) if told.forward else None,
        [listening(("127.0.0.1", 0)) for _ in range(told.processes)] if told.processes > 1 else [],
    )
    if told.forward and sockets.forward:
        forget_itself(os.environ, sockets.forward.getsockname()[1], told.forward.certificates)
    _gateway(told)  # what is wrong is told before anybody is served
    log, authority, published = Log(), None, None
    more: dict[str, object] = {"admin": url_of(sockets.admin)} if sockets.admin else {}
    more |= {"encrypting": bool(told.key_map.entries)}
    if told.forward and sockets.forward:
        authority = Authority(INTERCEPTED, told.forward.days)
        published = Published(told.forward.certificates, authority)
        more |= {
            "forward": url_of(sockets.forward),
            "certificates": str(told.forward.certificates),
            "trusted_until": authority.ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    work = functools.partial(_work, told, sockets, authority)
    over = threading.Event()
    if told.processes > 1:
        block_signals()
    else:
        for number in TOLD:
            signal.signal(number, lambda *_: over.set())
    log.say("serving", url=url_of(sockets.reverse), store=told.upstream, **more)
    code = 0
    if told.processes > 1:
        code = run_several(told.processes, work, log, _GRACE_S)
    else:
        work(0, over)
    if published:
        published.remove()
    log.say("ended")
    # Threads of gRPC and of clients that are silent would hold the process.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _gateway(told: Settings, prefix: str = "") -> Gateway:
    ring = KeyRing(told.key_map.keys, told.kms_endpoint, old=told.old_keys, mounted=told.mounted_keys)
    origin = parse_origin(told.upstream)
    # The token is for Cloud Storage: another service that is named in its place must not see it.
    lends = bool(told.login) and origin.scheme == "https" and is_store(origin.host)
    pool = Pool(origin, told.upstream_ca, login=Login() if lends else None)
    budget = Budget((told.buffer_mib << 20) // told.processes)
    gate = Gateway(told.key_map, ring, pool, budget, sessions=Sessions(prefix))
    gate.always_md5 = told.md5
    return gate


def _work(
    told: Settings, sockets: Sockets, authority: Authority | None, index: int, over: threading.Event
) -> None:
    """Serves, as one process of those that do, until it is told to end."""
    peers = Peers(index, [one.getsockname()[:2] for one in sockets.peers]) if sockets.peers else None
    gate = _gateway(told, f"{index}." if peers else "")
    observer = Observer(gate, told.level, Log(process=index) if peers else Log())
    admin = Admin(gate, observer, peers)

    def watched(how: Answer) -> Answer:
        return lambda client: observer.watch(client, how)

    def watched_within(client: Client, how: Answer) -> None:
        observer.watch(client, _for_programs(how, told, here=False))

    at_its_address = _for_programs(lambda client: answer(gate, client, peers), told)
    servers = [Server(sockets.reverse, watched(at_its_address))]
    if sockets.forward and told.forward and authority:
        forward = Forward(gate, authority, told.forward.allowed, watched_within, observer.say, peers)
        servers.append(Server(sockets.forward, watched(forward.answer)))
    if sockets.admin:
        servers.append(Server(sockets.admin, admin.answer))
    if peers:
        of_peers = watched(_for_programs(lambda client: answer(gate, client), told))
        servers.append(Server(sockets.peers[index], for_peers(of_peers, admin.answer_peer)))
    for server in servers:
        threading.Thread(target=server.serve, daemon=True).start()
    if peers:
        observer.say("working", pid=os.getpid())
    over.wait()
    deadline = time.monotonic() + _GRACE_S
    for server in servers:
        server.close()
    for server in servers:
        server.wait(deadline - time.monotonic())


def _for_programs(how: Answer, told: Settings, *, here: bool = True) -> Answer:
    """Returns what answers the programs that it is for, and no web pages where the machine's token is lent.

    Every port that lends it, or uses a key, needs that.
    """

    def answer_programs(client: Client) -> None:
        if told.login:
            refuse_pages(client.request.headers, here=here)
        if OWN in (told.login, told.users) and not client.wire.of_this_user:
            raise Refused(
                403, "forbidden", "this proxy answers programs of its own user alone: --users all lets others"
            )
        how(client)

    return answer_programs


def listening(address: tuple[str, int]) -> socket.socket:
    """Returns a socket that listens. Raises BadInput."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BadInput(f"cannot listen at {address[0]}:{address[1]}: {error.strerror}") from error


def url_of(listener: socket.socket) -> str:
    """Returns where it listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def forget_itself(environ: MutableMapping[str, str], port: int, certificates: Path) -> None:
    """Takes this proxy out of its own environment: what it asks others would come to it."""
    for name in list(environ):
        if name.lower() in _PROXIES:
            try:
                parts = urlsplit(environ[name])
                own = parts.hostname in ("127.0.0.1", "localhost", "::1") and parts.port == port
            except ValueError:
                continue
        else:
            own = name in _TRUSTED and Path(environ[name]).resolve().parent == certificates.resolve()
        if own:
            del environ[name]
