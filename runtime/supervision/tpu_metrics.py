"""Asks a TPU's runtime how it is: the gRPC service that libtpu opens on its host, spoken with sockets alone.

A supervisor has Python's standard library only, so this holds as much of HTTP/2 and of protocol buffers as one
unary call without TLS takes. The service is `tpu.monitoring.runtime.RuntimeMetricService` at port 8431 of loopback
(TPU_RUNTIME_METRICS_PORTS); what its messages look like is published with Google's `tpu-info`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

ADDRESS = ("127.0.0.1", 8431)

METRICS = {
    "memory_used_bytes": "tpu.runtime.hbm.memory.usage.bytes",
    "memory_total_bytes": "tpu.runtime.hbm.memory.total.bytes",
    "duty_cycle_percent": "tpu.runtime.tensorcore.dutycycle.percent",
}
"""Our name of a metric → libtpu's."""

_PATH = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
_LIMIT_S = 0.5
_LARGEST = (1 << 16) - 1
"""What a server may send before it has to be told that there is more room."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK, _END_STREAM, _END_HEADERS, _PADDED = 1, 1, 4, 8


def read(address: tuple[str, int] = ADDRESS) -> dict[str, dict[str, float]]:
    """Returns the metrics by device; nothing when no TPU runtime answers there in time, or what answers is none."""
    found: dict[str, dict[str, float]] = {}
    for ours, theirs in METRICS.items():
        try:
            answer = _call(address, _field(1, theirs.encode()))
            values = dict(_values(answer))
        except (OSError, ValueError, IndexError, struct.error):
            return found
        for device, value in values.items():
            found.setdefault(str(device), {})[ours] = value
    return found


def _call(address: tuple[str, int], request: bytes) -> bytes:
    """Makes one unary call; returns the response message. Raises OSError or ValueError when there is none."""
    host = f"{address[0]}:{address[1]}"
    headers = b"".join(
        b"\x00" + _text(name) + _text(value)  # a literal that no table has to know
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", _PATH),
            (":authority", host),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        )
    )
    message = b"\x00" + struct.pack(">I", len(request)) + request
    with socket.create_connection(address, _LIMIT_S) as sock:
        sock.settimeout(_LIMIT_S)
        sock.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, headers)
            + _frame(_DATA, _END_STREAM, 1, message)
        )
        return _answer(sock)


def _answer(sock: socket.socket) -> bytes:
    """Reads frames up to the end of the stream. What headers say is not looked at: without a message it has failed."""
    data = b""
    while True:
        kind, flags, stream, payload = _receive(sock)
        if kind == _SETTINGS and not flags & _ACK:
            sock.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            sock.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind in (_RST_STREAM, _GOAWAY):
            raise ValueError("the call was refused")
        elif kind == _DATA and stream == 1:
            data += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        if stream == 1 and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
    compressed, size = struct.unpack(">BI", data[:5])
    if compressed or len(data) < 5 + size:
        raise ValueError("no whole message came")
    return data[5 : 5 + size]


def _receive(sock: socket.socket) -> tuple[int, int, int, bytes]:
    head = _exactly(sock, 9)
    size = int.from_bytes(head[:3], "big")
    if size > _LARGEST:
        raise ValueError("no frame of HTTP/2")
    return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, _exactly(sock, size)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise OSError("the connection was closed")
        data += part
    return data


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()  # none is longer than 126 letters


def _values(response: bytes) -> Iterator[tuple[int, float]]:
    """Yields device and value of a MetricResponse{metric{metrics{attribute{value{int_attr}} gauge}}}."""
    for metrics in (each for metric in _all(response, 1) for each in _all(metric, 3)):
        device = next(
            (
                number
                for attribute in _all(metrics, 1)
                for value in _all(attribute, 2)
                for number in _all(value, 3)
            ),
            0,
        )
        for gauge in _all(metrics, 3):
            for field, value in _fields(gauge):
                if field == 1:
                    yield int(device), float(struct.unpack("<d", value)[0])
                elif field == 2:
                    yield int(device), float(value)


def _all(message: bytes, wanted: int) -> list[Any]:
    return [value for field, value in _fields(message) if field == wanted]


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields number and value of each field: whole numbers, eight or four bytes, or what is of any length."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = message[at : at + size], at + size
        elif kind == 2:
            size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        else:
            raise ValueError("no protocol buffer")
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value
