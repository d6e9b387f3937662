"""A store that takes little of the processor, to measure proxies: `python -m tests.bench.lean_store FOLDER`.

Objects lie in files; uploads by media and multipart, reads of ranges, and metadata, all without checks: what it would
take for them would hide what the proxy takes. It finds the CRC32C of what it is sent, which the proxy wants to be told.
`--rate N`: all transfers together have N MiB a second, as those of a machine with a slow network have. `--sparse`: of
each GiB of an object, and at its end, 4 MiB are kept, and nothing between: what is read there is zeros. It prints its
address, and ends with its parent.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import itertools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c

_PIECE, _KEPT = 1 << 20, 4 << 20


@dataclass
class Kept:
    """An object."""

    file: Path
    generation: int
    size: int = 0
    crc32c: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class Store(ThreadingHTTPServer):
    """Serves one folder."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path, rate_mib: float, *, sparse: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.objects, self.sparse = folder, dict[str, Kept](), sparse
        self.numbers = itertools.count(1)
        self._rate, self._lock, self._free_at = rate_mib * 2**20, threading.Lock(), 0.0

    def pace(self, count: int) -> None:
        """Waits for as long as so many bytes take."""
        if not self._rate:
            return
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
            until = self._free_at
        time.sleep(max(0.0, until - time.monotonic()))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store
    rbufsize = _PIECE

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        number = next(self.server.numbers)
        kept = Kept(self.server.folder / str(number), number)
        left = int(self.headers["Content-Length"])
        beginning, after = b"", 0
        if query["uploadType"] == "multipart":
            beginning, kept.fields, after = self._related()
            left -= len(beginning)
        with kept.file.open("wb", buffering=0) as file:
            kept.size = left - after
            kept.crc32c = self._receive(file.fileno(), kept.size)
        self.rfile.read(after)
        self.server.objects[query["name"]] = kept
        self._tell(query["name"], kept)

    def _related(self) -> tuple[bytes, dict[str, Any], int]:
        """Returns what stands before the object's bytes, its JSON, and how many bytes stand behind them."""
        boundary = self.headers["Content-Type"].partition("boundary=")[2]
        lines = b""
        while lines.count(b"\r\n\r\n") < 2:
            lines += self.rfile.readline()
        return lines, json.loads(lines.split(b"\r\n")[3]), len(f"\r\n--{boundary}--\r\n")

    def _receive(self, file: int, left: int) -> int:
        """Returns the CRC32C of what came."""
        memory, size, crc32c = bytearray(_PIECE), left, 0
        buffer = memoryview(memory)
        while left:
            came = self.rfile.readinto1(buffer[: min(left, _PIECE)])  # type: ignore[attr-defined]
            if not came:
                raise ConnectionError("an upload broke off")
            self.server.pace(came)
            crc32c = google_crc32c.extend(crc32c, (ctypes.c_char * came).from_buffer(memory))
            at = size - left
            if not self.server.sparse or at % (1 << 30) < _KEPT or left < _KEPT:
                os.pwrite(file, buffer[:came], at)
            left -= came
        os.ftruncate(file, size)
        return crc32c

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        name = unquote(url.path.rpartition("/")[2])
        kept = self.server.objects[name]
        if "alt=media" not in url.query:
            self._tell(name, kept)
            return
        wanted = re.fullmatch("bytes=([0-9]+)-([0-9]*)", self.headers.get("Range", ""))
        first = int(wanted[1]) if wanted else 0
        last = min(int(wanted[2] or kept.size) if wanted else kept.size, kept.size - 1)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{kept.size}")
        self.send_header("X-Goog-Generation", str(kept.generation))
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        with kept.file.open("rb") as file:
            while first <= last:
                count = min(_PIECE, last + 1 - first)
                self.server.pace(count)
                first += os.sendfile(self.connection.fileno(), file.fileno(), first, count)

    def do_DELETE(self) -> None:
        url = urlsplit(self.path)
        self.server.objects.pop(unquote(url.path.rpartition("/")[2])).file.unlink()
        self.send_response(204)
        self.end_headers()

    def _tell(self, name: str, kept: Kept) -> None:
        crc32c = base64.b64encode(kept.crc32c.to_bytes(4, "big")).decode()
        told = {**kept.fields, "name": name, "bucket": "b", "size": str(kept.size), "crc32c": crc32c}
        content = json.dumps({**told, "generation": str(kept.generation), "metageneration": "1"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(argv: Sequence[str]) -> int:
    """Serves until the parent ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lean_store", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--sparse", action="store_true")
    given = parser.parse_args(argv)
    store = Store(given.folder, given.rate, sparse=given.sparse)
    print(f"http://127.0.0.1:{store.server_address[1]}", flush=True)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
