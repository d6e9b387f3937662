"""What a bench of the encrypting proxy runs: stores, proxies before them, and a client that takes little itself."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

_PIECE = bytes(range(256)) * (4 << 10)
MIB = 1 << 20


@dataclass
class Place:
    """Something that answers as Cloud Storage does, and its process."""

    url: str
    process: psutil.Process

    @property
    def cpu_s(self) -> float:
        """Processor seconds so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def peak_mib(self) -> float:
        """The most memory that was resident so far."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def upload(self, name: str, size: int) -> float:
        """Uploads an object of so many bytes in one request; returns how long it took."""
        began = time.perf_counter()
        connection = self._connection()
        target = f"/upload/storage/v1/b/b/o?uploadType=media&name={name}"
        pieces = (memoryview(_PIECE)[: min(len(_PIECE), size - at)] for at in range(0, size, len(_PIECE)))
        connection.request("POST", target, pieces, {"Content-Length": str(size), **_LOGIN})
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        connection.close()
        return time.perf_counter() - began

    def read(self, name: str, span: str = "") -> tuple[float, float]:
        """Reads an object, or a range of it; returns when its first byte was there, and when all of it."""
        began = time.perf_counter()
        connection = self._connection()
        headers = {**_LOGIN, **({"Range": f"bytes={span}"} if span else {})}
        connection.request("GET", f"/storage/v1/b/b/o/{name}?alt=media", headers=headers)
        response = connection.getresponse()
        buffer = bytearray(MIB)
        response.readinto1(memoryview(buffer)[:1])
        first, size = time.perf_counter() - began, 1
        while came := response.readinto(buffer):
            size += came
        assert response.status in (200, 206) and not response.length, (response.status, size)
        connection.close()
        return first, time.perf_counter() - began

    def delete(self, name: str) -> None:
        """Deletes an object."""
        connection = self._connection()
        connection.request("DELETE", f"/storage/v1/b/b/o/{name}", headers=_LOGIN)
        assert connection.getresponse().status == 204
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=600, blocksize=MIB)


_LOGIN = {"Authorization": "Bearer of-a-bench"}


@contextmanager
def lean_store(folder: Path, rate_mib: float = 0.0, *, sparse: bool = False) -> Iterator[Place]:
    """A store that takes little of the processor."""
    folder.mkdir()
    words = [sys.executable, "-m", "tests.bench.lean_store", str(folder), "--rate", str(rate_mib)]
    words += ["--sparse"] * sparse
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout and process.stdin
        try:
            yield Place(process.stdout.readline().strip(), psutil.Process(process.pid))
        finally:
            process.stdin.close()


@contextmanager
def proxy(store: str, *words: str) -> Iterator[Place]:
    """The proxy before a store."""
    command = [sys.executable, "-m", "runtime.gcs_proxy", "--listen", "127.0.0.1:0", "--upstream", store]
    process = subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr
        try:
            yield Place(json.loads(process.stderr.readline())["url"], psutil.Process(process.pid))
        finally:
            process.terminate()


def orbax(url: str, bucket: str) -> dict[str, float]:
    """Saves and restores a tree by Orbax, in a process of its own; returns how long each took."""
    told = {"STORAGE_EMULATOR_HOST": url, "TENSORSTORE_GCS_HTTP_URL": url}
    environment = {**os.environ, **told, "GOOGLE_AUTH_TOKEN_FOR_TESTING": "of-a-bench"}
    command = [sys.executable, "-m", "tests.bench.orbax_gcs", f"gs://{bucket}/bench"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))
