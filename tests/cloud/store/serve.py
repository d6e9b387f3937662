"""Cloud Storage over HTTP, a process of its own: `python -m tests.cloud store [--port N]`; it prints its address.

For tests: GET /_calls (what was asked, as JSON), POST /_faults (a list, see `due`), GET and PUT /_raw/BUCKET/NAME (an
object's bytes as they lie; they are changed without a new generation), POST /_new (a bucket of a new name).
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.cloud.lifetime import wait_until_over
from tests.cloud.store.api import Asked, Reply, answer
from tests.cloud.store.state import World

Fault = dict[str, Any]


class Store(ThreadingHTTPServer):
    """Serves one world."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.world = World()
        self.calls: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.lock = threading.Lock()

    def due(self, method: str, target: str) -> Fault:
        """Returns the fault that strikes this call: {"method", "path" (a pattern), "nth", "times", and what happens}.

        status, body: it is answered so. cut: so many bytes of the answer go out, then the connection ends. take: so
        many bytes of the request's body are read, and kept of a resumable upload, then the connection ends. early:
        the status is answered before the body is read. seconds: it waits. headers: the answer gets these.
        """
        with self.lock:
            for fault in self.faults:
                if fault.get("method", method) != method or not re.search(fault.get("path", ""), target):
                    continue
                fault["seen"] = fault.get("seen", 0) + 1
                nth = fault.get("nth", 1)
                if nth <= fault["seen"] < nth + fault.get("times", 1):
                    return fault
        return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else what follows the headers waits for 40 ms
    server: Store
    timeout = 300

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _answer(self) -> None:
        if self.path.startswith("/_"):
            self._control()
            return
        fault = self.server.due(self.command, self.path)
        # One that is given twice is what HTTP makes of it: the last one alone would hide the other.
        headers = {name.lower(): ", ".join(self.headers.get_all(name, ())) for name in self.headers}
        with self.server.lock:
            self.server.calls.append({"method": self.command, "target": self.path, "headers": headers})
        time.sleep(fault.get("seconds", 0))
        if "early" in fault:
            self._send(
                Reply(fault["early"], {"Content-Type": "application/json"}, fault.get("body", "{}").encode())
            )
            self._end()
            return
        body = self._body(headers, fault.get("take"))
        if body is None:
            return
        if "status" in fault:
            kind = {"Content-Type": fault.get("type", "application/json; charset=UTF-8")}
            reply = Reply(
                fault["status"], kind | fault.get("headers", {}), fault.get("body", '{"error": {}}').encode()
            )
        else:
            url = f"http://{self.headers['Host']}"
            reply = answer(self.server.world, Asked(self.command, self.path, headers, body, url))
            reply.headers |= fault.get("headers", {})
        self._send(reply, fault.get("cut"))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _answer

    def _body(self, headers: Mapping[str, str], take: int | None) -> bytes | None:
        """Returns the body; None where it did not come whole, or was not taken whole."""
        if headers.get("expect") == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding") == "chunked":
            body = bytearray()
            while size := int(self.rfile.readline().strip() or b"-1", 16):
                if size < 0:
                    self._end()
                    return None
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return bytes(body)
        length = int(headers.get("content-length", 0))
        body = bytearray(self.rfile.read(min(length, length if take is None else take)))
        if len(body) < length:
            self._keep(headers, bytes(body))
            self._end()
            return None
        return bytes(body)

    def _keep(self, headers: Mapping[str, str], body: bytes) -> None:
        """Of a resumable upload what came is kept, in multiples, though its connection broke."""
        told = re.match(r"bytes ([0-9]+)-", headers.get("content-range", ""))
        number = re.search("upload_id=([^&]+)", self.path)
        session = self.server.world.sessions.get(number[1]) if number else None
        if session is not None and told:
            kept = bytes(session.content[: int(told[1])]) + body
            session.content[:] = kept[: len(kept) // (256 << 10) * (256 << 10)]

    def _send(self, reply: Reply, cut: int | None = None) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status not in (204, 304):
            self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        if self.command != "HEAD" and reply.status not in (204, 304):
            self.wfile.write(reply.content if cut is None else bytes(reply.content)[:cut])
        if cut is not None:
            self._end()

    def _end(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _control(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body, world = self.rfile.read(length), self.server.world
        what, _, rest = self.path[2:].partition("/")
        content = b""
        if what == "calls":
            content = json.dumps(self.server.calls).encode()
        elif what == "faults":
            self.server.faults = json.loads(body)
        elif what == "new":
            name = f"bucket-{uuid.uuid4().hex[:10]}"
            world.buckets[name] = {}
            content = name.encode()
        elif what == "raw":
            bucket, _, name = unquote(rest).partition("/")
            if self.command == "PUT":
                objects = world.buckets[bucket]
                objects[name] = replace(objects[name], content=body)
            content = world.buckets[bucket][name].content
        self._send(Reply(200, {}, content))


def main(argv: Sequence[str]) -> int:
    """Serves until it is interrupted, or its parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud store", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parent", type=int)
    given = parser.parse_args(argv)
    store = Store(given.port)
    print(f"http://127.0.0.1:{store.server_address[1]}", flush=True)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    wait_until_over(given.parent, threading.Event())
    return 0
