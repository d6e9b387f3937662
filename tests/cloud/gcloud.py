"""A stand-in for gcloud: it says who is logged in, and tunnels to instances by a table of where they are.

Beside it lie `instances.json` (name → [address, port]) and `account`; each call is written down in `calls`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path


def install(folder: Path, instances: dict[str, tuple[str, int]], account: str = "me@example.org") -> Path:
    """Makes a program `gcloud` in a folder; returns the folder, for the PATH."""
    folder.mkdir(exist_ok=True)
    (folder / "instances.json").write_text(json.dumps(instances))
    (folder / "account").write_text(account)
    program = folder / "gcloud"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {folder} "$@"\n')
    program.chmod(0o755)
    return folder


def answer() -> int:
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if words[:2] == ["auth", "list"]:
        print((folder / "account").read_text())
        return 0
    assert words[:2] == ["compute", "start-iap-tunnel"] and "--listen-on-stdin" in words, words
    place = json.loads((folder / "instances.json").read_text()).get(words[2])
    if place is None:
        told = "Error while connecting [4003: 'failed to connect to backend']. (Failed to connect to port 22)"
        print(f"ERROR: (gcloud.compute.start-iap-tunnel) {told}", file=sys.stderr)
        return 1
    relay(socket.create_connection(tuple(place)))
    return 0


def relay(link: socket.socket) -> None:
    """Passes on what comes from either side until one of them ends."""

    def inwards() -> None:
        while data := os.read(0, 65536):
            link.sendall(data)
        os._exit(0)

    threading.Thread(target=inwards, daemon=True).start()
    while data := link.recv(65536):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(answer())
