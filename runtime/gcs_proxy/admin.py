"""The port that tells of the proxy itself: whether it is alive, whether its keys work, and its numbers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.observing import Observer
from runtime.gcs_proxy.peers import Peers, merged
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.server import Client

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_GOOD_S, _BAD_S = 60.0, 5.0
"""How long it is taken for granted that keys work, or do not: probes come often, and Cloud KMS counts calls."""


class Readiness:
    """Whether all keys of the map wrap and unwrap."""

    def __init__(self, gate: Gateway, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate, self._clock, self._lock = gate, clock, threading.Lock()
        self._until, self._wrong = 0.0, ""

    def wrong(self) -> str:
        """Returns what is wrong with a key; nothing where all work."""
        with self._lock:
            if self._clock() >= self._until:
                try:
                    for key in self._gate.key_map.keys:
                        self._gate.try_key(key)
                    self._wrong = ""
                except Refused as refused:
                    self._wrong = refused.message
                self._until = self._clock() + (_BAD_S if self._wrong else _GOOD_S)
            return self._wrong


class Admin:
    """Answers at that port, and what other processes ask of this one."""

    def __init__(self, gate: Gateway, observer: Observer, peers: Peers | None = None) -> None:
        self._observer, self._peers, self._ready = observer, peers, Readiness(gate)

    def answer(self, client: Client) -> None:
        """Answers /healthz, /readyz and /metrics. Raises Refused, Closed."""
        path = client.request.target.partition("?")[0]
        if client.request.method not in ("GET", "HEAD"):
            raise Refused(405, "methodNotAllowed", "this port is read only")
        if path == "/healthz":
            gone = self._peers.silent() if self._peers else []
            _tell(client, f"process {gone[0]} does not answer" if gone else "")
        elif path == "/readyz":
            _tell(client, self._ready.wrong())
        elif path == "/metrics":
            client.answer(200, [("Content-Type", _TEXT)], self._metrics().encode())
        else:
            raise Refused(404, "notFound", "here are /healthz, /readyz and /metrics")

    def answer_peer(self, path: str, client: Client) -> None:
        """Answers another process of this proxy. Raises Closed."""
        if path == "metrics":
            client.answer(200, [("Content-Type", _TEXT)], self._observer.metrics().encode())
        else:
            _tell(client, "")

    def _metrics(self) -> str:
        own = self._observer.metrics()
        if not self._peers:
            return own
        return merged({self._peers.index: own, **self._peers.ask_all("metrics")})


def _tell(client: Client, wrong: str) -> None:
    told = {"status": "failing", "why": wrong} if wrong else {"status": "ok"}
    client.answer(503 if wrong else 200, [("Content-Type", "application/json")], json.dumps(told).encode())
