"""A front before the object store that answers some requests with an error and lets all others wait."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REAL = "https://storage.googleapis.com"
_OF_ONE_CONNECTION = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length")
)
_PATIENCE_S = 120.0


class FaultyStore:
    """Serves on a port of this host while it is entered; `url` is where. Counts `requests` and `faults`."""

    def __init__(self, upstream: str, *, status: int, fraction: float, latency_s: float) -> None:
        """Of all requests, `fraction` are answered with `status`, evenly spread; others go on to `upstream`."""
        self.requests = self.faults = 0
        self.disturbs = True
        self._upstream = urllib.parse.urlsplit(upstream)
        self._status, self._fraction, self._latency_s = status, fraction, latency_s
        self._lock = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body go together: apart, the second waits for 40 ms

            def log_message(self, format: str, *arguments: object) -> None:
                """Says nothing: a benchmark makes thousands of requests."""

            def _answer(self) -> None:
                store._answer(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultyStore:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _fails(self) -> bool:
        """Counts a request; returns whether it is one that fails."""
        with self._lock:
            if not self.disturbs:
                return False
            self.requests += 1
            fails = int(self.requests * self._fraction) > self.faults
            self.faults += fails
            return fails

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        disturbed = self.disturbs
        if self._fails():
            _reply(request, self._status, [], b"this failure was asked for")
            return
        if disturbed:
            time.sleep(self._latency_s)
        secure = self._upstream.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._upstream.netloc, timeout=_PATIENCE_S)
        try:
            headers = {k: v for k, v in request.headers.items() if k.lower() not in _OF_ONE_CONNECTION}
            connection.request(request.command, request.path, body or None, headers)
            answer = connection.getresponse()
            _reply(request, answer.status, answer.getheaders(), answer.read())
        except (OSError, http.client.HTTPException) as error:
            _reply(request, 502, [], f"no answer from {self._upstream.netloc}: {error}".encode())
        finally:
            connection.close()


def _reply(request: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    request.send_response_only(status)
    for name, value in headers:
        if name.lower() not in _OF_ONE_CONNECTION:
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
