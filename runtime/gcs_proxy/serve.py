"""Serves the proxy: listens, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import MutableMapping
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.authority import Authority, Published
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.forward import Forward
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.hosts import INTERCEPTED
from runtime.gcs_proxy.keys import KeyRing
from runtime.gcs_proxy.observing import Observer, answer_admin
from runtime.gcs_proxy.options import Settings
from runtime.gcs_proxy.server import Answer, Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.upstream import Pool, parse_origin

_GRACE_S = 10.0
_BACKLOG = 512
_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "grpc_proxy")


def serve(told: Settings) -> None:
    """Serves until SIGTERM or SIGINT; requests under way have a few seconds then. Raises BadInput."""
    ring = KeyRing([*told.key_map.keys, *told.old_keys], told.kms_endpoint)
    pool = Pool(parse_origin(told.upstream), told.upstream_ca)
    gate = Gateway(told.key_map, ring, pool, Budget(told.buffer_mib << 20))
    observer = Observer(gate, told.level)
    listener = listening(told.listen)
    served: list[tuple[socket.socket, Answer]] = [
        (listener, lambda client: observer.watch(client, lambda one: answer(gate, one)))
    ]
    if told.admin:
        served.append((listening(told.admin), lambda client: answer_admin(observer, client)))
    published, more = None, {}
    if told.forward:
        authority = Authority(INTERCEPTED, told.forward.days)
        forward = Forward(gate, authority, told.forward.allowed, observer.watch, observer.say)
        served.append((listening(told.forward.listen), lambda one: observer.watch(one, forward.answer)))
        more = {
            "forward": url_of(served[-1][0]),
            "certificates": str(told.forward.certificates),
            "trusted_until": authority.ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        forget_proxy(os.environ, served[-1][0].getsockname()[1])
        # Last: who finds these connects.
        published = Published(told.forward.certificates, authority)
    servers = [Server(*one) for one in served]
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    for server in servers:
        threading.Thread(target=server.serve, daemon=True).start()
    observer.say("serving", url=url_of(listener), store=told.upstream, **more)
    over.wait()
    if published:
        published.remove()
    deadline = time.monotonic() + _GRACE_S
    for server in servers:
        server.close()
    for server in servers:
        server.wait(deadline - time.monotonic())
    observer.say("ended")
    # Threads of gRPC and of clients that are silent would hold the process.
    sys.stderr.flush()
    os._exit(0)


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


def forget_proxy(environ: MutableMapping[str, str], port: int) -> None:
    """Takes this proxy out of its own environment: what it asks of Cloud KMS would come back to it."""
    for name in [name for name in environ if name.lower() in _PROXIES]:
        try:
            parts = urlsplit(environ[name])
            own = parts.hostname in ("127.0.0.1", "localhost", "::1") and parts.port == port
        except ValueError:
            continue
        if own:
            del environ[name]
