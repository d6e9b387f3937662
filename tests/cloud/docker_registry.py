"""Debian's docker-registry on loopback: the real one, for tests and by hand."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_S

PACKAGE = "docker-registry"


def missing() -> str:
    """Returns why none can be started here, or nothing."""
    return "" if shutil.which(PACKAGE) else f"no {PACKAGE} here: apt-get install {PACKAGE}"


@contextmanager
def serve_docker_registry(folder: Path) -> Iterator[str]:
    """Serves what is kept below a folder; yields HOST:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "kept")}, "delete": {"enabled": True}},
        "http": {"addr": address},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PACKAGE, "serve", str(folder / "config.yml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait_until_up(process, address, folder / "log")
        yield address
    finally:
        process.kill()
        process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    host, _, port = address.partition(":")
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)  # nothing tells that it listens but that it does
    raise RuntimeError(f"{PACKAGE} did not come up: {log.read_text()[-1000:]}")


def main(argv: list[str]) -> int:
    argparse.ArgumentParser(prog="python -m tests.cloud docker_registry", description=__doc__).parse_args(
        argv
    )
    with tempfile.TemporaryDirectory() as folder, serve_docker_registry(Path(folder)) as address:
        print(address, flush=True)
        print("serving; end with Ctrl-C", file=sys.stderr)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0
