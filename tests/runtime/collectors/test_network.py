"""Network counters: of interfaces with a default route, each once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from runtime.collectors.network import default_interfaces, network
from runtime.collectors.own_reads import OwnReads
from runtime.measure import Collector

Measure = Callable[[Collector], AbstractContextManager[dict[str, float]]]

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t9\t00000000\t0\t0\t0
veth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def write(interfaces: Path, name: str, received: int, sent: int) -> None:
    folder = interfaces / name / "statistics"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rx_bytes").write_text(f"{received}\n")
    (folder / "tx_bytes").write_text(f"{sent}\n")


@pytest.mark.parametrize(("routes", "expected"), [(ROUTES, ["eth0"]), ("", []), ("Iface\n", [])])
def test_default_interfaces(routes: str, expected: list[str]) -> None:
    assert default_interfaces(routes) == expected


def test_difference_of_the_default_interface(tmp_path: Path, measuring: Measure) -> None:
    (tmp_path / "route").write_text(ROUTES)
    write(tmp_path, "eth0", 1000, 50)
    write(tmp_path, "veth1", 7, 7)
    collector = network(OwnReads(), tmp_path / "route", tmp_path)
    assert collector is not None
    with measuring(collector) as told:
        write(tmp_path, "eth0", 3000, 51)
        write(tmp_path, "veth1", 9999, 9999)
    assert told == {"host_network_received_bytes": 2000, "host_network_sent_bytes": 1}


def test_no_network_gives_no_collector(tmp_path: Path) -> None:
    (tmp_path / "route").write_text("Iface\n")
    assert network(OwnReads(), tmp_path / "route", tmp_path) is None
    assert network(OwnReads(), tmp_path / "none", tmp_path) is None
