"""Writes samples as TensorBoard event files, byte by byte: the format is small, TensorFlow is not."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime.contract.names import TENSORBOARD_FOLDER
from runtime.contract.results import Sample
from runtime.output import folder_name, placing

# Field numbers of TensorFlow's event.proto and summary.proto.
_EVENT_WALL_TIME, _EVENT_STEP, _EVENT_FILE_VERSION, _EVENT_SUMMARY = 1, 2, 3, 5
_SUMMARY_VALUE, _VALUE_TAG, _VALUE_SIMPLE = 1, 1, 2
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types


def write_events(samples: Iterable[Sample], output: str, scratch: Path) -> list[str]:
    """Writes one event file per benchmark and worker below `output/tensorboard`; returns their names.

    A sample is a scalar `operation/metric`, those of warm-up repeats `warmup/operation/metric`. Its step is
    the repeat; where an operation occurs n times in a repeat, n steps are one repeat. Writing again replaces
    the files.
    """
    files: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        benchmark = folder_name(sample.benchmark, sample.benchmark_key)
        folder = f"{TENSORBOARD_FOLDER}/{benchmark}/worker-{sample.worker:04d}"
        # TensorBoard wants a number, by which it sorts the files of a folder.
        files[f"{folder}/events.out.tfevents.{sample.attempt:010d}.point-{sample.point}"].append(sample)
    for name, content in files.items():
        with placing(output, name, scratch) as path:
            path.write_bytes(encode_events(content))
    return sorted(files)


def encode_events(samples: Sequence[Sample]) -> bytes:
    """Returns the content of an event file."""
    occurrences: dict[str, int] = defaultdict(int)
    for sample in samples:
        occurrences[sample.operation] = max(occurrences[sample.operation], sample.occurrence + 1)
    start = min((sample.started_at for sample in samples), default=0.0)
    records = [_event(start, 0, _field(_EVENT_FILE_VERSION, _BYTES, b"brain.Event:2"))]
    for sample in samples:
        tag = f"{'warmup/' if sample.warmup else ''}{sample.operation}/{sample.metric}"
        value = _field(_VALUE_TAG, _BYTES, tag.encode())
        value += _field(_VALUE_SIMPLE, _FLOAT, struct.pack("<f", sample.value))
        summary = _field(_SUMMARY_VALUE, _BYTES, value)
        step = sample.repeat * occurrences[sample.operation] + sample.occurrence
        records.append(_event(sample.started_at, step, _field(_EVENT_SUMMARY, _BYTES, summary)))
    return b"".join(_framed(record) for record in records)


def _event(wall_time: float, step: int, what: bytes) -> bytes:
    at = _field(_EVENT_WALL_TIME, _DOUBLE, struct.pack("<d", wall_time))
    return at + _field(_EVENT_STEP, _VARINT, _varint(step)) + what


def _field(number: int, wire_type: int, data: bytes) -> bytes:
    """Encodes one protobuf field; only bytes carry their length."""
    length = _varint(len(data)) if wire_type == _BYTES else b""
    return _varint(number << 3 | wire_type) + length + data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _framed(record: bytes) -> bytes:
    """Returns a TFRecord: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(record))
    return length + _masked_checksum(length) + record + _masked_checksum(record)


def _masked_checksum(data: bytes) -> bytes:
    checksum = crc32c(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Returns the Castagnoli checksum; about 10 MB/s, enough for a worker's events."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    return checksum ^ 0xFFFFFFFF
