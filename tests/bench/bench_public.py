"""What detectors say of series that were really measured: those that the sources of apache-otava and of asv ship."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.bars import Bar
from tests.bench.detection_data import Drawn
from tests.bench.detection_play import Alarms, ours, peer
from tests.bench.peers import bench_home

OTAVA, ASV = "apache-otava==0.8.0", "asv==0.5.1"
_TIGERBEETLE, _ASTROPY = "tests/tigerbeetle_test.py", "test/example_results/cheetah/"

WORSE_TIGERBEETLE = {"": (15, 95)}
"""Nights, from 0, from which on TigerBeetle was slower. Its authors' own picture shows them, a single bad night at 10,
which is none, one that is better at 71, and a slow change for the better after the second."""

WORSE_ASTROPY = {
    "time_quantity.time_quantity_init_scalar": (17, 26),
    "time_quantity.time_quantity_scalar_conversion": (18, 26),
    "time_units.time_simple_unit_parse": (26,),
    "time_units.time_unit_parse": (26,),
    "time_units.time_unit_to": (18,),
}
"""Commits, from 0, from which on a benchmark of Astropy took longer than it had for five commits and more, as far as
the eye tells. At 15 all take twice as long, which is the machine's; many get faster for good."""

BEGIN, NIGHTS = 9, 180
"""Judged from the first night on that may have a baseline; asv needs minutes for a night of the longer rest."""

_FEWEST = 30
"""Commits at which a benchmark must have a value: of others there is no series."""

NEAR, LATE = 2, 5
"""Nights within which a change was told in time, and late."""


@dataclass(frozen=True)
class Published:
    """Series that somebody published, by name, and the nights in which they got worse."""

    title: str
    names: Sequence[str]
    drawn: Drawn
    worse: Mapping[str, Sequence[int]]


def measure() -> list[Bar]:
    """Returns how many changes each found in time, and its other alarms. Told, and no bar: it is few series."""
    return [bar for one in (tigerbeetle(), astropy()) for bar in _told(one)]


def tigerbeetle() -> Published:
    """Returns the series, mirrored at its mean: it is of throughputs, and detectors here look for what grows."""
    tree = ast.parse(_files(OTAVA, _TIGERBEETLE)[_TIGERBEETLE])
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.List) and len(node.elts) > NIGHTS]
    found = np.asarray(ast.literal_eval(lists[0])[:NIGHTS], dtype=np.float64)
    return Published("TigerBeetle", [""], _drawn((2 * found.mean() - found)[None]), WORSE_TIGERBEETLE)


def astropy() -> Published:
    """Returns the times of Astropy's benchmarks by commit, of those that have a value at most commits."""
    # Two are no results: they are there so that asv's tests meet a damaged file, and one of no use.
    told = [
        json.loads(_without_comments(text)) for name, text in _files(ASV, _ASTROPY).items() if not _odd(name)
    ]
    runs = sorted(
        (one for one in told if "results" in one), key=lambda one: (one["date"], one["commit_hash"])
    )
    values = {
        name: [value if isinstance(value := run["results"].get(name), float) else math.nan for run in runs]
        for name in sorted({name for run in runs for name in run["results"] if ".time_" in name})
    }
    names = [name for name, series in values.items() if np.isfinite(series).sum() >= _FEWEST]
    return Published("Astropy", names, _drawn(np.asarray([values[name] for name in names])), WORSE_ASTROPY)


def _drawn(values: NDArray[np.float64]) -> Drawn:
    """Returns series of one run of one repeat a night: nobody can be given a second one."""
    return Drawn(values[:, :, None, None], BEGIN, np.full(len(values), -1))


def _odd(name: str) -> bool:
    return name.startswith((f"{_ASTROPY}aaaa", f"{_ASTROPY}bbbb"))


def _without_comments(text: str) -> str:
    """Returns a file of asv's, which has comments and commas too many, as JSON."""
    return re.sub(r",(\s*[}\]])", r"\1", re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def _files(sources: str, path: str) -> dict[str, str]:
    """Fetches sources once, and returns the files in them whose names hold `path`, by the name from there on."""
    folder = bench_home() / "sources"
    pattern = f"*{sources.partition('==')[0].rpartition('-')[2]}-{sources.partition('==')[2]}.tar.gz"
    if not list(folder.glob(pattern)):
        words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        subprocess.run([sys.executable, "-m", "pip", *words, sources, "--dest", str(folder)], check=True)
    (archive,) = folder.glob(pattern)
    found = {}
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            if path in member.name and member.isfile() and (file := files.extractfile(member)):
                found[member.name[member.name.index(path) :]] = file.read().decode()
    return found


def _told(published: Published) -> Iterator[Bar]:
    mine, count = ours(published.drawn), sum(map(len, published.worse.values()))
    for name in ("otava", "asv"):
        theirs = peer(name, published.drawn)
        nights = f" (in nights {_listed(mine)}; {_listed(theirs)})" if len(mine) == 1 else ""
        title = f"{published.title}, worse {count} times: told"
        for within in (NEAR, LATE):
            here, there = (_hits(published, alarms, within) for alarms in (mine, theirs))
            yield _bar(f"{title} within {within} nights, ours / {name}'s{nights}", here, there)
        others = (sum(map(len, mine)) - here, sum(map(len, theirs)) - there)
        yield _bar(f"{published.title}: all other alarms, ours / {name}'s", *others)


def _hits(published: Published, alarms: Alarms, within: int) -> int:
    """Returns how many changes for the worse were told within so many nights."""
    return sum(
        any(onset <= night < onset + within for night in of_series)
        for name, of_series in zip(published.names, alarms, strict=True)
        for onset in published.worse.get(name, ())
    )


def _listed(alarms: Alarms) -> str:
    return ", ".join(map(str, alarms[0])) or "none"


def _bar(what: str, value: float, of: float) -> Bar:
    ratio = value / of if of else (1.0 if value == 0 else math.inf)
    return Bar(what, value, of, "", 1, ratio, ratio, ratio, 0.0, math.inf)
