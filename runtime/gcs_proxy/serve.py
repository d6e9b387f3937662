"""Serves the proxy: reads what it is told, listens, and ends when it is told to."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.keymap import KeyMap, KeyRef, parse_key, parse_key_map
from runtime.gcs_proxy.keys import KeyRing
from runtime.gcs_proxy.observing import Observer, answer_admin
from runtime.gcs_proxy.server import Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.upstream import GOOGLE, Pool, parse_origin

KEY_MAP, NO_ENCRYPTION, INSECURE, LEVEL = (
    "GCP_KMS_BUCKET_KEY_MAPPING",
    "GCS_PROXY_DISABLE_ENCRYPTION",
    "SSL_INSECURE",
    "DEBUG_LEVEL",
)
_GRACE_S = 10.0
_BACKLOG = 512


@dataclass(frozen=True)
class Settings:
    """What the proxy was told."""

    listen: tuple[str, int]
    key_map: KeyMap
    old_keys: tuple[KeyRef, ...]
    upstream: str
    upstream_ca: str | None
    kms_endpoint: str | None
    buffer_mib: int
    admin: tuple[str, int] | None
    level: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `serve` is told by."""
    parser.add_argument(
        "--key-map",
        metavar="BUCKET[/PREFIX]:KEY,…",
        help=f"which objects are encrypted, by which key; also {KEY_MAP}. * is any bucket",
    )
    parser.add_argument(
        "--old-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a key that objects may still be wrapped by; for reading only",
    )
    parser.add_argument(
        "--no-encryption",
        action="store_true",
        help=f"pass everything through as it is; also {NO_ENCRYPTION}, where it is not empty",
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:9081", metavar="ADDRESS:PORT", help="on loopback; %(default)s"
    )
    parser.add_argument(
        "--admin", metavar="ADDRESS:PORT", help="where /healthz and /metrics are served; nowhere without it"
    )
    parser.add_argument("--upstream", default=GOOGLE, metavar="URL", help="the store; %(default)s")
    parser.add_argument(
        "--upstream-ca",
        metavar="FILE",
        help="certificates of authorities that are trusted besides the system's",
    )
    parser.add_argument("--kms-endpoint", metavar="HOST:PORT", help="a stand-in of Cloud KMS, without TLS")
    parser.add_argument(
        "--buffer-mib", type=int, default=40, metavar="N", help="for all transfers together; %(default)s"
    )


def settings(given: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Returns what the proxy was told by words and environment. Raises BadInput."""
    if environ.get(INSECURE, "").lower() not in ("", "0", "false", "no"):
        raise BadInput(
            f"{INSECURE} is set: the store's certificate is always verified here",
            fix="unset it, and name the authority of a store of your own by --upstream-ca",
        )
    off = given.no_encryption or bool(environ.get(NO_ENCRYPTION))
    told = given.key_map if given.key_map is not None else environ.get(KEY_MAP, "")
    if not told and not off:
        raise BadInput(
            "there is no key map: nothing would be encrypted",
            fix=f"--key-map 'BUCKET:KEY', {KEY_MAP}, or --no-encryption",
        )
    if given.buffer_mib < 4:
        raise BadInput("--buffer-mib is at least 4")
    return Settings(
        _loopback(given.listen),
        KeyMap() if off else parse_key_map(told),
        tuple(parse_key(key) for key in given.old_key),
        given.upstream,
        given.upstream_ca,
        given.kms_endpoint,
        given.buffer_mib,
        _address(given.admin) if given.admin else None,
        _level(environ.get(LEVEL, "")),
    )


def serve(told: Settings) -> None:
    """Serves until SIGTERM or SIGINT; requests under way have a few seconds then. Raises BadInput."""
    ring = KeyRing([*told.key_map.keys, *told.old_keys], told.kms_endpoint)
    pool = Pool(parse_origin(told.upstream), told.upstream_ca)
    gate = Gateway(told.key_map, ring, pool, Budget(told.buffer_mib << 20))
    listener = listening(told.listen)
    observer = Observer(gate, told.level)
    server = Server(listener, lambda client: observer.watch(client, lambda one: answer(gate, one)))
    if told.admin:
        admin = Server(listening(told.admin), lambda client: answer_admin(observer, client))
        threading.Thread(target=admin.serve, daemon=True).start()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    threading.Thread(target=server.serve, daemon=True).start()
    host, port = listener.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    observer.say("serving", url=f"http://{address}", store=told.upstream)
    over.wait()
    server.stop(_GRACE_S)
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


def _level(text: str) -> int:
    if text not in ("", "0", "1"):
        raise BadInput(f"{LEVEL} is {text!r}", fix="0 tells of what went wrong, 1 of every request")
    return int(text or 0)


def _loopback(text: str) -> tuple[str, int]:
    """Tokens and plaintext go this way without TLS: they are not to leave the machine."""
    host, port = _address(text)
    if not ipaddress.ip_address(host).is_loopback:
        raise BadInput(
            f"{text!r} is not on loopback: whoever reaches it could read plaintext", fix="127.0.0.1:PORT"
        )
    return host, port


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]").replace("localhost", "127.0.0.1"))
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 65536:
        raise BadInput(f"{text!r} is no ADDRESS:PORT", fix="write it like 127.0.0.1:9081")
    return str(address), number
