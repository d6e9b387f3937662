"""Bytes and requests this process read and wrote, as the kernel counts them in /proc/self/io.

The kernel counts calls of read and write on files, pipes and sockets; not send and recv, and not mapped
files. The disk figures are what reaches the storage layer: data written to the page cache counts when a page
becomes dirty, what is read from the page cache does not count, and nothing on tmpfs does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.collectors.differences import Differences
from runtime.collectors.own_reads import OwnReads
from runtime.measure import Collector, Value

_METRICS: Mapping[str, tuple[str, str]] = {
    "rchar": ("read_bytes", "bytes"),
    "wchar": ("written_bytes", "bytes"),
    "syscr": ("read_requests", "count"),
    "syscw": ("write_requests", "count"),
    "read_bytes": ("disk_read_bytes", "bytes"),
    "write_bytes": ("disk_written_bytes", "bytes"),
}


def process_io(own: OwnReads) -> Collector | None:
    """Returns the collector, leaving out what measuring reads; None where the kernel has no such counters."""
    try:
        fd = own.open("/proc/self/io")
        own.read(fd)
    except OSError:
        return None

    def read() -> dict[str, int]:
        requests, size = own.requests, own.bytes
        lines = own.read(fd).decode().splitlines()
        counters = {name: int(value) for name, value in (line.split(": ") for line in lines)}
        counters["syscr"] -= requests
        counters["rchar"] -= size
        return counters

    return Differences(read, _changed)


def _changed(before: dict[str, int], after: dict[str, int]) -> Iterator[Value]:
    for name, (metric, unit) in _METRICS.items():
        yield Value(metric, after[name] - before[name], unit)
