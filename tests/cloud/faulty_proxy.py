"""A proxy in front of a stand-in that spoils chosen calls: `python -m tests.cloud faulty_proxy URL`.

Faults are posted as JSON to /_faults, a list of {"method", "path", "nth", "do", "times", "seconds", "pid"}: from
the nth call on whose method and path (a part of it) match, `times` calls are spoilt. `do` is one of
  error       answers 503 without asking the stand-in
  refuse      answers 403 likewise
  lose_reply  lets the stand-in do it, then drops the connection without a reply
  drop        drops the connection without asking the stand-in
  stall       waits `seconds`, then lets the stand-in do it
  kill_before, kill_after   kills process `pid` before or after the stand-in does it
GET /_calls returns every call so far, as lines of "METHOD PATH".
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_PATIENCE_S = 240.0
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class Faults:
    """What is to be spoilt, and what was called."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.killing = threading.Lock()
        self.rules: list[dict[str, Any]] = []
        self.calls: list[str] = []

    def replace(self, rules: list[dict[str, Any]]) -> None:
        # Whoever saw a process die is answered once the stand-in has done what the dead one asked for.
        with self.killing, self.lock:
            self.rules = [{"method": "", "path": "", "nth": 1, "times": 1, **rule} for rule in rules]

    def next(self, method: str, path: str) -> Mapping[str, Any]:
        """Counts a call; returns the rule that spoils it, or nothing."""
        path = unquote(path)
        with self.lock:
            self.calls.append(f"{method} {path}")
            for rule in self.rules:
                if rule["method"] in ("", method) and rule["path"] in path:
                    rule["nth"] -= 1
                    if 1 - rule["times"] <= rule["nth"] <= 0:
                        return rule
        return {"do": "nothing"}


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else what follows the headers waits for 40 ms
    faults: Faults
    upstream: str

    def do_GET(self) -> None:
        if self.path == "/_calls":
            self._answer(200, {}, "\n".join(self.faults.calls).encode())
        else:
            self._pass_on()

    def do_POST(self) -> None:
        if self.path == "/_faults":
            self.faults.replace(json.loads(self._body()))
            self._answer(200, {}, b"")
        else:
            self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def do_PATCH(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        body = self._body()
        rule = self.faults.next(self.command, self.path)
        do = rule["do"]
        if do in ("error", "refuse"):
            self._answer(
                503 if do == "error" else 403, {"Content-Type": "text/plain"}, b"spoilt by the proxy"
            )
            return
        if do == "drop":
            self.close_connection = True
            return
        if do == "stall":
            time.sleep(rule["seconds"])
        if do.startswith("kill_"):
            with self.faults.killing:
                self._killed(do, rule["pid"], body)
            return
        reply, content = self._done(body)
        if do == "lose_reply":
            self.close_connection = True
            return
        self._answer(reply.status, dict(reply.getheaders()), content)

    def _killed(self, do: str, pid: int, body: bytes) -> None:
        if do == "kill_before":
            os.kill(pid, signal.SIGKILL)
        self._done(body)
        if do == "kill_after":
            os.kill(pid, signal.SIGKILL)
        self.close_connection = True

    def _done(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Lets the stand-in do it; returns its reply, with what is in that."""
        upstream = http.client.HTTPConnection(self.upstream, timeout=_PATIENCE_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        upstream.request(self.command, self.path, body, headers)
        reply = upstream.getresponse()
        content = reply.read()
        upstream.close()
        return reply, content

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: /_calls tells."""


@dataclass(frozen=True)
class Proxy:
    """A running proxy, for tests."""

    url: str

    def spoil(self, *rules: Mapping[str, Any]) -> None:
        """Sets what is to be spoilt from now on, in place of what was."""
        request = urllib.request.Request(f"{self.url}/_faults", data=json.dumps(rules).encode())
        with urllib.request.urlopen(request, timeout=_PATIENCE_S):
            return

    def calls(self) -> list[str]:
        """Returns every call so far."""
        with urllib.request.urlopen(f"{self.url}/_calls", timeout=_PATIENCE_S) as reply:
            return reply.read().decode().splitlines()


@contextmanager
def serve_proxy(upstream_url: str) -> Iterator[Proxy]:
    """Starts the proxy as a process of its own."""
    process = subprocess.Popen([sys.executable, __file__, upstream_url], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Proxy(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def main(argv: Sequence[str]) -> int:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud faulty_proxy", description=__doc__)
    parser.add_argument("upstream", metavar="URL", help="what it passes requests on to")
    Handler.upstream = urlsplit(parser.parse_args(argv).upstream).netloc
    Handler.faults = Faults()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
