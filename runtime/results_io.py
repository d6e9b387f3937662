"""Keeps what was measured: a journal that survives a kill, sealed into Parquet when a worker ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from runtime.contract.names import (
    HOST_FILE,
    JOURNAL_FILE,
    host_file,
    points_file,
    samples_file,
    sidecar_log,
)
from runtime.contract.record import record_of
from runtime.contract.redaction import Redaction
from runtime.contract.results import SAMPLE_COLUMNS, SCHEMA_VERSION, SCHEMA_VERSION_KEY, PointResult, Sample
from runtime.contract.sidecar import SIDECAR_LOG
from runtime.output import placing, publish_records, write_failed
from runtime.tensorboard import write_events

if TYPE_CHECKING:
    import pyarrow as pa

Record = Sample | PointResult
_KINDS: Mapping[str, type[Sample] | type[PointResult]] = {"sample": Sample, "point": PointResult}

_LONGEST_LOG = 8 << 20


class Journal:
    """Appends records to a file of JSON lines; what `append` and `extend` took has reached the kernel.

    One process writes at a time. A line that an earlier writer left torn is cut off on opening, so that what
    follows stays readable. Raises InfrastructureError when the disk is full; earlier records stay whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            _cut_torn_tail(self._fd)
        except OSError as error:
            raise write_failed(path, error) from error

    def append(self, record: Record) -> None:
        """Writes one record."""
        self.extend([record])

    def extend(self, records: Iterable[Record]) -> None:
        """Writes records with one call to the kernel."""
        data = b"".join(_line(record) for record in records)
        with self._lock:
            size = os.fstat(self._fd).st_size
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as error:
                with contextlib.suppress(OSError):  # a device, or the file system went read-only
                    os.ftruncate(self._fd, size)
                raise write_failed(self.path, error) from error

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def read(path: Path) -> Iterator[Record]:
        """Yields the records of a journal; a torn last line is ignored, no file means no records.

        Raises InfrastructureError at a damaged line before the last, BadInput at a record of a newer version.
        """
        if not path.exists():
            return
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                yield _parse(line, f"{path}:{number}")


def seal(scratch: Path, output: str, attempt: int, worker: int) -> tuple[str, str]:
    """Writes one worker's journal into the run's folder: samples as Parquet, point results as JSON lines.

    TensorBoard gets the samples as events, too.

    `output` is the run's folder, a path or gs://. Returns where both files lie. Sealing again gives the same
    files, and each appears whole or not at all. The last result of a point stands: a supervisor writes one only
    where the worker could not, or to tell the root cause instead of its echo.
    """
    samples: list[Sample] = []
    points: dict[int, PointResult] = {}
    for record in Journal.read(scratch / JOURNAL_FILE):
        if (record.attempt, record.worker) != (attempt, worker):
            continue
        if isinstance(record, Sample):
            samples.append(record)
        else:
            points[record.point] = record
    samples_at, points_at = samples_file(attempt, worker), points_file(attempt, worker)
    with placing(output, points_at, scratch) as path:
        path.write_bytes(b"".join(_line(point) for point in points.values()))
    with placing(output, samples_at, scratch) as path:
        _write_parquet(samples, path)
    write_events(samples, output, scratch)
    _bring_host_counters(scratch, output, attempt, worker)
    return f"{output}/{samples_at}", f"{output}/{points_at}"


def _bring_host_counters(scratch: Path, output: str, attempt: int, worker: int) -> None:
    """Copies what a supervisor has sampled so far, where there is one."""
    try:
        sampled = (scratch / HOST_FILE).read_bytes()
    except FileNotFoundError:
        return
    with placing(output, host_file(attempt, worker), scratch) as path:
        path.write_bytes(sampled[: sampled.rfind(b"\n") + 1])


def _bring_sidecar_log(scratch: Path, output: str, attempt: int, worker: int) -> None:
    """Copies the end of what the program beside a worker said, where there is one."""
    try:
        with (scratch / SIDECAR_LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LOG))
            said = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    with placing(output, sidecar_log(attempt, worker), scratch) as path:
        path.write_text(Redaction.of_environment(os.environ)(said))


def preload() -> None:
    """Imports what `seal` needs (about 0.3 s), for a thread to do while the worker waits anyway."""
    import pyarrow.parquet

    del pyarrow


def _line(record: Record) -> bytes:
    kind = "sample" if isinstance(record, Sample) else "point"
    # vars() instead of asdict(): no deep copy, a third of the time, and this runs after every measured block.
    return json.dumps({"record": kind, "schema_version": SCHEMA_VERSION, **vars(record)}).encode() + b"\n"


def _parse(line: bytes, place: str) -> Record:
    try:
        fields: dict[str, Any] = json.loads(line)
        kind = fields.pop("record")
        version = int(fields.pop("schema_version", SCHEMA_VERSION))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InfrastructureError(
            f"{place} is not a journal's record: {error}; the file is damaged, its samples cannot be trusted"
        ) from error
    _refuse_newer(version, place)
    try:
        return record_of(_KINDS[kind], fields)
    except (KeyError, TypeError) as error:
        raise InfrastructureError(f"{place} is not a record of schema version {version}: {error}") from error


def _refuse_newer(version: int, place: str) -> None:
    if version > SCHEMA_VERSION:
        raise BadInput(
            f"{place} has schema version {version}, this slicebench reads up to {SCHEMA_VERSION}",
            fix="use the slicebench that wrote it, or a newer one",
        )


def _cut_torn_tail(fd: int) -> None:
    """Truncates after the last newline."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != os.fstat(fd).st_size:
        os.ftruncate(fd, end)


def _write_parquet(samples: list[Sample], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"string": pa.string(), "int32": pa.int32(), "float64": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema(
        [pa.field(name, types[kind], nullable=False) for name, kind in SAMPLE_COLUMNS.items()],
        metadata={SCHEMA_VERSION_KEY: str(SCHEMA_VERSION).encode()},
    )
    columns = [_column([getattr(sample, field.name) for sample in samples], field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Returns values as an Arrow column, made of its buffers.

    `pa.array` would do, but imports pandas where that is installed: 0.5 s at the end of each worker.
    """
    import numpy as np
    import pyarrow as pa

    if kind == pa.string():
        texts = [value.encode() for value in values]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    elif kind == pa.bool_():
        buffers = [None, pa.py_buffer(np.packbits(np.asarray(values, np.bool_), bitorder="little"))]
    else:
        buffers = [None, pa.py_buffer(np.asarray(values, str(kind).replace("double", "float64")))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def main(arguments: list[str] | None = None) -> int:
    """`python -m runtime.results_io seal …`: for a supervisor whose worker died; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m runtime.results_io")
    command = parser.add_subparsers(required=True).add_parser("seal", help=seal.__doc__)
    command.add_argument("--scratch", type=Path, required=True)
    command.add_argument("--output", required=True)
    command.add_argument("--attempt", type=int, required=True)
    command.add_argument("--worker", type=int, required=True)
    asked = parser.parse_args(arguments)
    try:
        publish_records(asked.scratch, asked.output)
        seal(asked.scratch, asked.output, asked.attempt, asked.worker)
        _bring_sidecar_log(asked.scratch, asked.output, asked.attempt, asked.worker)
    except SlicebenchError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
