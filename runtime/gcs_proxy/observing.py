"""What the proxy tells of requests, without secrets: JSON lines, and numbers for Prometheus."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.refusal import Refused, invalid, unavailable
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.wire import BadMessage, Closed

disable_created_metrics()  # type: ignore[no-untyped-call]
_SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300)
_PLACES = 6


class Log:
    """JSON lines."""

    def __init__(self, stream: TextIO = sys.stderr, **always: object) -> None:
        self._stream, self._always, self._lock = stream, always, threading.Lock()

    def say(self, event: str, **more: object) -> None:
        """Writes a line."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "event": event,
            **self._always,
            **more,
        }
        # Where nobody can be told, the proxy goes on.
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._stream.flush()


class Observer:
    """Sees every request. Level 0: tells of those that were refused here, broke off or met a 5xx; level 1: of all.

    What it tells has no keys, no tokens, no data, and no paths: those of uploads under way are as good as a token.
    """

    def __init__(self, gate: Gateway, level: int, log: Log) -> None:
        self._level, self.say = level, log.say
        self.registry = CollectorRegistry()
        labels = ("kind", "status")
        self._requests = Counter(
            "gcs_proxy_requests", "Requests by kind and status", labels, registry=self.registry
        )
        self._seconds = Histogram(
            "gcs_proxy_request_seconds",
            "Time to the last byte",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._sent = Counter(
            "gcs_proxy_sent_bytes", "Bytes sent to clients", ("kind",), registry=self.registry
        )
        self._refused = Counter(
            "gcs_proxy_refusals", "Requests refused here", ("reason",), registry=self.registry
        )
        buffers = Gauge("gcs_proxy_buffer_bytes", "Memory of transfers under way", registry=self.registry)
        buffers.set_function(lambda: gate.budget.used)
        waiting = Gauge("gcs_proxy_buffer_waiting", "Transfers that wait for memory", registry=self.registry)
        waiting.set_function(lambda: gate.budget.waiting)
        encrypting = Gauge(
            "gcs_proxy_encrypting", "Whether anything is encrypted here", registry=self.registry
        )
        encrypting.set(bool(gate.key_map.entries))
        uploads = Gauge("gcs_proxy_uploads", "Resumable uploads that were begun here", registry=self.registry)
        uploads.set_function(lambda: gate.sessions.count)

    def watch(self, client: Client, answer: Callable[[Client], None]) -> None:
        """Has a request answered, and tells of it. Raises what `answer` does."""
        began = time.monotonic()
        why: Refused | BadMessage | Closed | None = None
        try:
            answer(client)
        except (Refused, BadMessage, Closed) as error:
            why = error
            raise
        except Exception as error:  # noqa: BLE001 a client without an answer would ask again for a quarter of an hour
            self.say("defect", error=type(error).__name__, at=_places(error))
            why = _of_defect(error)
            raise why from None
        finally:
            self._record(client, time.monotonic() - began, why)

    def metrics(self) -> str:
        """Returns the numbers, as Prometheus reads them."""
        return generate_latest(self.registry).decode()

    def _record(self, client: Client, seconds: float, why: Refused | BadMessage | Closed | None) -> None:
        about = client.about
        kind = about.kind if about else "none"
        status = client.status or _status(why)
        self._requests.labels(kind, str(status)).inc()
        self._seconds.labels(kind).observe(seconds)
        self._sent.labels(kind).inc(client.sent)
        if isinstance(why, Refused):
            self._refused.labels(why.reason).inc()
        if self._level < 1 and why is None and status < 500:
            return
        self.say(
            "request",
            method=client.request.method,
            kind=kind,
            bucket=about.bucket if about else "",
            object=about.name if about else "",
            status=status,
            bytes=client.sent,
            seconds=round(seconds, 4),
            **({"why": str(why)} if why else {}),
        )


def _places(error: Exception) -> list[str]:
    """Returns where a defect showed, outermost first. What it says may be of somebody's data, and is not told."""
    frames = traceback.extract_tb(error.__traceback__)[-_PLACES:]
    return [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames]


def _of_defect(error: Exception) -> Refused:
    """Returns what is answered where this program failed: of means that it lacks, there may be more later."""
    if isinstance(error, (MemoryError, OSError)):
        return unavailable(f"the proxy lacks what it needs for this request ({type(error).__name__})")
    return invalid(f"the proxy cannot answer this request: {type(error).__name__}; its log tells where")


def _status(why: Exception | None) -> int:
    """Returns what a request that was not answered yet will be answered; 0 where that is nothing."""
    return why.status if isinstance(why, Refused) else 400 if isinstance(why, BadMessage) else 0
