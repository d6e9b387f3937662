"""For tests: a running stand-in of Cloud Storage, its faults, and what it saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

ROOT = Path(__file__).parents[3]


class Store:
    """Handles of a running stand-in."""

    def __init__(self, url: str) -> None:
        self.url = url

    def new_bucket(self) -> str:
        """Makes a bucket; returns its name."""
        return self._ask("POST", "/_new").decode()

    def faults(self, *faults: dict[str, Any]) -> None:
        """From now on these strike, and no others; see serve.py."""
        self._ask("POST", "/_faults", json.dumps(faults).encode())

    def calls(self, part: str = "") -> list[dict[str, Any]]:
        """Returns the requests so far whose target has this in it."""
        return [call for call in json.loads(self._ask("GET", "/_calls")) if part in call["target"]]

    def raw(self, bucket: str, name: str) -> bytes:
        """Returns an object's bytes as they lie."""
        return self._ask("GET", f"/_raw/{quote(f'{bucket}/{name}')}")

    def spoil(self, bucket: str, name: str, content: bytes) -> None:
        """Changes them, nothing else of the object."""
        self._ask("PUT", f"/_raw/{quote(f'{bucket}/{name}')}", content)

    def patch(self, bucket: str, name: str, changes: dict[str, Any]) -> None:
        """Changes what it says of an object."""
        self._ask("PATCH", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", json.dumps(changes).encode())

    def resource(self, bucket: str, name: str) -> dict[str, Any]:
        """Returns what it says of an object."""
        path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        return json.loads(self._ask("GET", path))  # type: ignore[no-any-return]

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()  # type: ignore[no-any-return]


@contextmanager
def running() -> Iterator[Store]:
    """Serves from a process of its own while the block runs."""
    command = [sys.executable, "-m", "tests.cloud", "store", "--parent", str(os.getpid())]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield Store(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def store_server() -> Iterator[Store]:
    """One stand-in for all tests of a process."""
    with running() as store:
        yield store


@pytest.fixture
def store(store_server: Store) -> Iterator[Store]:
    """The stand-in, without faults."""
    yield store_server
    store_server.faults()
