"""Sweeps over two things as maps: a cell per combination, the darker the longer it took. Pure.

What varies among points of one benchmark are options, mesh and checkpoint. Where three or more vary, two of them
make the map, those that leave the fewest cells empty, and there is a map for each combination of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.roles import Role
from tasks.history.columns import headline
from tasks.history.labels import mesh_label, plain, short_generator
from tasks.history.quantities import seconds
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import OperationSummary

MOST_MAPS = 12
"""Of a report; the rest is in its tables."""

_ROLES: Mapping[Role, str] = {"save": "save (blocking)", "wait": "background of a save", "restore": "restore"}
_FEWEST = 2
"""Values of either side from which on there is something to compare."""


@dataclass(frozen=True)
class Cell:
    """A combination. `shade` from 0, the shortest, to 1; None where there is no figure and `text` says why."""

    text: str
    title: str
    point: int | None = None
    shade: float | None = None


@dataclass(frozen=True)
class HeatMap:
    """`rows` has a line of cells per name in `down`, each with one cell per name in `across`."""

    title: str
    role: Role
    down_name: str
    across_name: str
    down: Sequence[str]
    across: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class _Swept:
    point: PointOutcome
    traits: Mapping[str, str]


def heat_maps(results: Results, summaries: Mapping[int, Sequence[OperationSummary]]) -> list[HeatMap]:
    """Returns the maps of all sweeps of a run; none where no benchmark varies in two things."""
    kinds = dict.fromkeys(point.generator for point in results.points)
    maps: list[HeatMap] = []
    for kind in kinds:
        kin = [_swept(point) for point in results.points if point.generator == kind]
        varied = [name for name in _names(kin) if len(_values(kin, name)) >= _FEWEST]
        pairs = [(down, across) for n, down in enumerate(varied) for across in varied[n + 1 :]]
        if not pairs:
            continue
        sides = max(pairs, key=lambda pair: _filled(kin, pair, varied))
        others = [name for name in varied if name not in sides]
        for chosen in _facets(kin, others):
            maps += _maps(short_generator(kind), chosen, sides, others, summaries)
    return maps[:MOST_MAPS]


def _swept(point: PointOutcome) -> _Swept:
    traits = {name: plain(value) for name, value in point.options.items()}
    if point.mesh:
        traits["mesh"] = mesh_label(point.mesh)
    traits |= {f"checkpoint {name}": plain(value) for name, value in (point.checkpoint or {}).items()}
    return _Swept(point, traits)


def _names(kin: Iterable[_Swept]) -> list[str]:
    return list(dict.fromkeys(name for one in kin for name in one.traits))


def _values(kin: Iterable[_Swept], name: str) -> list[str]:
    """Returns the different values of a trait: numbers by their size, all else as the suite has them."""
    found = list(dict.fromkeys(one.traits.get(name, "–") for one in kin))
    try:
        return sorted(found, key=float)
    except ValueError:
        return found


def _facets(kin: Sequence[_Swept], others: Sequence[str]) -> list[list[_Swept]]:
    found: dict[tuple[str, ...], list[_Swept]] = {}
    for one in kin:
        found.setdefault(tuple(one.traits.get(name, "–") for name in others), []).append(one)
    return list(found.values())


def _filled(kin: Sequence[_Swept], sides: tuple[str, str], varied: Sequence[str]) -> int:
    """Returns how many cells the maps of two sides would fill, less those that they would leave empty."""
    filled = 0
    for facet in _facets(kin, [name for name in varied if name not in sides]):
        down, across = (len(_values(facet, name)) for name in sides)
        filled += 2 * len(facet) - down * across if min(down, across) >= _FEWEST else -len(facet)
    return filled


def _maps(
    kind: str,
    kin: Sequence[_Swept],
    sides: tuple[str, str],
    others: Sequence[str],
    summaries: Mapping[int, Sequence[OperationSummary]],
) -> list[HeatMap]:
    down, across = (_values(kin, name) for name in sides)
    places = {tuple(one.traits.get(name, "–") for name in sides): one.point for one in kin}
    if min(len(down), len(across)) < _FEWEST or len(places) < len(kin):
        return []
    if 2 * len(places) <= len(down) * len(across):
        return []  # two things that vary together are no sweep over both
    held = ", ".join(f"{name}={kin[0].traits.get(name, '–')}" for name in others)
    maps = []
    for role, words in _ROLES.items():
        took = {
            point.point: one.time.median
            for point in places.values()
            if (one := headline(summaries.get(point.point, ()), role)) is not None
        }
        if len(took) < 2:
            continue
        rows = [[_cell(places.get((row, column)), took) for column in across] for row in down]
        title = f"{kind}: {words}" + (f", {held}" if held else "")
        maps.append(HeatMap(title, role, *sides, down, across, rows))
    return maps


def _cell(point: PointOutcome | None, took: Mapping[int, float]) -> Cell:
    if point is None:
        return Cell("", "not part of the suite")
    if point.point not in took:
        return Cell("–", point.cause or point.status, point.point)
    value = took[point.point]
    return Cell(seconds(value), f"median {seconds(value)}", point.point, _shade(value, took.values()))


def _shade(value: float, values: Iterable[float]) -> float:
    """Returns where a time lies between the shortest and the longest, by their ratios."""
    told = [one for one in values if one > 0]
    low, high = min(told, default=0.0), max(told, default=0.0)
    if value <= 0 or high <= low:
        return 0.0
    return round(math.log(value / low) / math.log(high / low), 3)
