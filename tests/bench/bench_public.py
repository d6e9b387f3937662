"""What detectors say of a series that was really measured: TigerBeetle's, which apache-otava's sources ship."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
import tarfile
from collections.abc import Iterator

import numpy as np

from tests.bench.bars import Bar
from tests.bench.detection_data import Drawn
from tests.bench.detection_play import ours, peer
from tests.bench.peers import bench_home

SOURCES = "apache-otava==0.8.0"
_FILE = "tests/tigerbeetle_test.py"

WORSE = (15, 95)
"""Nights, from 0, from which on TigerBeetle was slower. Its authors' own picture shows them, a single bad night at 10,
which is none, one that is better at 71, and a slow change for the better after the second."""

BEGIN, NIGHTS = 9, 180
"""Judged from the first night on that may have a baseline; asv needs minutes for a night of the longer rest."""

NEAR = 2


def measure() -> list[Bar]:
    """Returns how many changes each found in time, and its other alarms. Told, and no bar: it is one series."""
    return list(_told(series()))


def series() -> Drawn:
    """Returns the series, mirrored at its mean: it is of throughputs, and detectors here look for what grows.

    One run of one repeat a night: nobody can be given a second one.
    """
    found = np.asarray(_published()[:NIGHTS], dtype=np.float64)
    values = 2 * found.mean() - found
    return Drawn(values[None, :, None, None], BEGIN, np.asarray([-1]))


def _published() -> list[float]:
    """Fetches the sources once, and reads the numbers out of their test without running it."""
    folder = bench_home() / "sources"
    if not list(folder.glob("*otava*.tar.gz")):
        words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run([sys.executable, "-m", "pip", *words, SOURCES, "--dest", str(folder)], check=True)
    (archive,) = folder.glob("*otava*.tar.gz")
    with tarfile.open(archive) as files:
        (name,) = [one for one in files.getnames() if one.endswith(_FILE)]
        member = files.extractfile(name)
        assert member is not None
        tree = ast.parse(member.read())
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.List) and len(node.elts) > NIGHTS]
    found: list[float] = ast.literal_eval(lists[0])
    return found


def _told(drawn: Drawn) -> Iterator[Bar]:
    mine, *_ = ours(drawn)
    for name in ("otava", "asv"):
        theirs, *_ = peer(name, drawn)
        here, there = _hits(mine), _hits(theirs)
        nights = f"(in nights {_listed(mine)}; {_listed(theirs)})"
        what = f"TigerBeetle, worse from {WORSE[0]} and {WORSE[1]} on: told within {NEAR} nights, of 2, ours / {name}'s"
        yield _bar(f"{what} {nights}", here, there)
        yield _bar(f"TigerBeetle: other alarms, ours / {name}'s", len(mine) - here, len(theirs) - there)


def _hits(alarms: list[int]) -> int:
    return sum(any(onset <= night < onset + NEAR for night in alarms) for onset in WORSE)


def _listed(alarms: list[int]) -> str:
    return ", ".join(map(str, alarms)) or "none"


def _bar(what: str, value: float, of: float) -> Bar:
    ratio = value / of if of else (1.0 if value == 0 else math.inf)
    return Bar(what, value, of, "", 1, ratio, ratio, ratio, 0.0, math.inf)
