"""Cloud KMS as far as symmetric keys go, over gRPC: `python -m tests.cloud kms --folder DIR` (its port is in DIR/port).

Every key that has a right name is there from the first call on. What it does is told by DIR/state.json, which is read
at every call:
  {"denied": [keys], "disabled": [keys], "faults": [{"method": "Decrypt", "status": "UNAVAILABLE", "times": 2}, …]}
A fault with "seconds" waits that long first, one without "status" then goes on; one with "damage" changes a byte of the
reply's payload. Calls are lines of DIR/calls. Messages are read and written here by the wire format itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.cloud.lifetime import tell_port, wait_until_over
from tests.waiting import until

_SERVICE = "/google.cloud.kms.v1.KeyManagementService/"
_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
Fields = dict[int, Any]


class _Refused(Exception):
    pass


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Encrypt and Decrypt."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock, self._seen = folder, threading.Lock(), {}  # type: ignore[var-annotated]

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = details.method.removeprefix(_SERVICE)
        work = {"Encrypt": _encrypt, "Decrypt": _decrypt}.get(method)
        if work is None:
            return None

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            fields = _parse(request)
            name = fields.get(1, b"").decode()
            with self._lock, (self._folder / "calls").open("a") as calls:
                calls.write(f"{method} {name}\n")
            fault = self._fault(method)
            time.sleep(fault.get("seconds", 0))
            if "status" in fault:
                context.abort(grpc.StatusCode[fault["status"]], fault.get("message", "injected"))
            try:
                self._check(name)
                return work(name, fields, fault.get("damage", False))
            except _Refused as refused:
                status, message = refused.args
                context.abort(grpc.StatusCode[status], message)
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(answer)

    def _state(self) -> Mapping[str, Any]:
        try:
            return json.loads((self._folder / "state.json").read_text())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return {}

    def _fault(self, method: str) -> Mapping[str, Any]:
        with self._lock:
            state = self._state()
            for fault in state.get("faults", ()):
                mark = json.dumps([state.get("id"), fault])
                if fault["method"] in (method, "*") and self._seen.get(mark, 0) < fault.get("times", 1):
                    self._seen[mark] = self._seen.get(mark, 0) + 1
                    return fault  # type: ignore[no-any-return]
        return {}

    def _check(self, name: str) -> None:
        state = self._state()
        if not _NAME.fullmatch(name):
            raise _Refused("INVALID_ARGUMENT", f"Resource field [name] has value [{name}]")
        if name in state.get("denied", ()):
            raise _Refused(
                "PERMISSION_DENIED",
                f"Permission 'cloudkms.cryptoKeyVersions.useToDecrypt' denied on resource '{name}' "
                "(or it may not exist).",
            )
        if name in state.get("disabled", ()):
            raise _Refused(
                "FAILED_PRECONDITION",
                f"{name}/cryptoKeyVersions/1 is not enabled, current state is: DISABLED.",
            )


def _secret(name: str) -> AESGCM:
    return AESGCM(hashlib.sha256(f"key of {name}".encode()).digest())


def _encrypt(name: str, fields: Fields, damage: bool) -> bytes:
    plain, associated = fields.get(2, b""), fields.get(3, b"")
    _verify(fields, 7, plain, "plaintext")
    _verify(fields, 8, associated, "additional_authenticated_data")
    nonce = os.urandom(12)
    sealed = b"\x0a\x24" + nonce + _secret(name).encrypt(nonce, plain, associated)
    told = _bytes(4, _number(1, google_crc32c.value(sealed)))
    return (
        _bytes(1, f"{name}/cryptoKeyVersions/1".encode())
        + _bytes(2, _spoilt(sealed, damage))
        + told
        + (_number(5, 7 in fields) + _number(6, 8 in fields))
    )


def _decrypt(name: str, fields: Fields, damage: bool) -> bytes:
    sealed, associated = fields.get(2, b""), fields.get(3, b"")
    _verify(fields, 5, sealed, "ciphertext")
    _verify(fields, 6, associated, "additional_authenticated_data")
    try:
        plain = _secret(name).decrypt(sealed[2:14], sealed[14:], associated)
    except (InvalidTag, ValueError):
        raise _Refused(
            "INVALID_ARGUMENT", "Decryption failed: verify that 'name' refers to the correct CryptoKey."
        ) from None
    return (
        _bytes(1, _spoilt(plain, damage))
        + _bytes(2, _number(1, google_crc32c.value(plain)))
        + _number(3, True)
    )


def _spoilt(data: bytes, damage: bool) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if damage else data


def _verify(fields: Fields, number: int, data: bytes, what: str) -> None:
    if number in fields and _parse(fields[number]).get(1, 0) != google_crc32c.value(data):
        raise _Refused(
            "INVALID_ARGUMENT", f"The checksum in field {what}_crc32c did not match the data in field {what}."
        )


def _parse(data: bytes) -> Fields:
    """Reads a message of numbers and length-delimited fields."""
    found: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value  # type: ignore[assignment]
        found[tag >> 3] = value
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _number(field: int, value: int) -> bytes:
    return _as_varint(field << 3) + _as_varint(int(value))


def _bytes(field: int, data: bytes) -> bytes:
    return _as_varint(field << 3 | 2) + _as_varint(len(data)) + data


def _as_varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80]) + _as_varint(number >> 7)


class Kms:
    """Handles of a running stand-in."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._folder, self.endpoint = folder, endpoint

    def set(self, **state: Any) -> None:
        """Says from now on what is denied, disabled, and which calls fail."""
        new = self._folder / "state.new"
        new.write_text(json.dumps({**state, "id": uuid.uuid4().hex}))
        new.rename(self._folder / "state.json")

    def calls(self) -> list[str]:
        """Returns what was asked so far, as "Method key"."""
        path = self._folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def running(folder: Path) -> Iterator[Kms]:
    """Serves it from a process of its own while the block runs."""
    command = [
        sys.executable,
        "-m",
        "tests.cloud",
        "kms",
        "--folder",
        str(folder),
        "--parent",
        str(os.getpid()),
    ]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    try:
        until(lambda: (folder / "port").exists() or process.poll() is not None)
        assert process.poll() is None, "the stand-in did not come up"
        yield Kms(folder, f"127.0.0.1:{(folder / 'port').read_text()}")
    finally:
        process.kill()
        process.wait()


def main(argv: Sequence[str]) -> int:
    """Serves until it is interrupted, or its parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud kms", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parent", type=int)
    given = parser.parse_args(argv)
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Service(given.folder),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tell_port(given.folder, port)
    print(f"Cloud KMS at 127.0.0.1:{port}", flush=True)
    wait_until_over(given.parent, threading.Event())
    return 0
