"""Bytes over the host's network while a block ran; the kernel has no such counters per process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runtime.collectors.differences import Differences
from runtime.collectors.own_reads import OwnReads
from runtime.measure import Collector, Value

_ROUTES = Path("/proc/self/net/route")
_INTERFACES = Path("/sys/class/net")


def network(own: OwnReads, routes: Path = _ROUTES, interfaces: Path = _INTERFACES) -> Collector | None:
    """Returns the collector for the interfaces a default route goes through; None when there are none.

    Workers on one host see each other's bytes. Virtual interfaces that only pass traffic on are left out by
    looking at routes, or bytes would count twice.
    """
    try:
        statistics = [interfaces / name / "statistics" for name in default_interfaces(routes.read_text())]
        files = [(own.open(path / "rx_bytes"), own.open(path / "tx_bytes")) for path in statistics]
    except OSError:
        return None
    if not files:
        return None

    def read() -> tuple[int, int]:
        return sum(int(own.read(rx)) for rx, _ in files), sum(int(own.read(tx)) for _, tx in files)

    return Differences(read, _changed)


def default_interfaces(routes: str) -> list[str]:
    """Returns the interfaces of default routes, each once, from the text of /proc/net/route."""
    rows = (line.split() for line in routes.splitlines()[1:])
    return sorted({row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"})


def _changed(before: tuple[int, int], after: tuple[int, int]) -> Iterator[Value]:
    yield Value("host_network_received_bytes", after[0] - before[0], "bytes")
    yield Value("host_network_sent_bytes", after[1] - before[1], "bytes")
