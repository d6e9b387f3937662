"""Tells a program that speaks gRPC, in HTTP/2, that it does not go through here: it would ask again and again else."""

from __future__ import annotations

import struct

from runtime.gcs_proxy.wire import Closed, Wire

MESSAGE = "gRPC does not go through this proxy: TENSORSTORE_GCS_BACKEND=gcs chooses HTTP"
_REST_OF_GREETING = b"SM\r\n\r\n"
_HEADERS, _SETTINGS, _PING, _GOAWAY = 1, 4, 6, 7
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_FRAMES, _LONGEST = 100, 16384
_STATUS_200 = b"\x88"
_UNIMPLEMENTED = "12"
"""A state that clients of gRPC show, and do not ask again at."""


def refuse_grpc(wire: Wire) -> None:
    """Answers the first call on a connection whose greeting's first half was read. Raises Closed."""
    if _read(wire, len(_REST_OF_GREETING)) != _REST_OF_GREETING:
        return
    _send(wire, _SETTINGS)
    for _ in range(_FRAMES):
        high, low, kind, flags, stream = struct.unpack(">BHBBI", _read(wire, 9))
        if high << 16 | low > _LONGEST:
            return
        content = _read(wire, low)
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            _send(wire, kind, _ACK, content=content if kind == _PING else b"")
        elif kind == _HEADERS:
            _send(wire, _HEADERS, _END_STREAM | _END_HEADERS, stream, _trailers())
            _send(wire, _GOAWAY, content=struct.pack(">II", stream, 0))
            wire.linger()
            return


def _trailers() -> bytes:
    """Returns the header block of an answer that is an error alone; its fields are written out."""
    fields = (
        ("content-type", "application/grpc"),
        ("grpc-status", _UNIMPLEMENTED),
        ("grpc-message", MESSAGE),
    )
    return _STATUS_200 + b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields
    )


def _send(wire: Wire, kind: int, flags: int = 0, stream: int = 0, content: bytes = b"") -> None:
    wire.send(struct.pack(">BHBBI", 0, len(content), kind, flags, stream) + content)


def _read(wire: Wire, size: int) -> bytes:
    data = bytearray(size)
    filled = 0
    while filled < size:
        came = wire.read_into(memoryview(data)[filled:])
        if not came:
            raise Closed("the connection ended within HTTP/2")
        filled += came
    return bytes(data)
