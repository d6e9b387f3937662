"""The generations of TPUs: their machines, and the shapes in which slices of each come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, eq=False)
class Family:
    """A generation of TPUs. `machine` is of its hosts, {} their chips; `single` machines hold a whole slice.

    `flat` are all of its two-dimensional topologies; without them it is made of cubes of 64 chips, up to `cubes`, in
    `turned` families in any order. Where a size has several shapes, a plain name means the one nearest to a cube for
    `nearest_to_cube`, else the longest.
    """

    name: str
    prefix: str
    machine: str
    label: str
    cores_per_chip: int
    pathways: str
    flat: tuple[str, ...] = ()
    cubes: int = 0
    turned: bool = False
    nearest_to_cube: frozenset[int] = frozenset()
    single: Mapping[str, str] = field(default_factory=dict)
    one_chip: bool = False
    devices_per_chip: int = 1
    flex: bool = True
    workload_policy: bool = False
    also: tuple[str, ...] = ()


_FLAT = ("2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_SMALL = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
_LONGEST_SIDE = 64
"""Cubes in a row, at most."""
_MOSTLY = frozenset(range(1, 98))

FAMILIES = (
    Family(
        "v4", "v4", "ct4p-hightpu-{}t", "tpu-v4-podslice", 2, "tpuv4", cubes=64, turned=True, flex=False,
        nearest_to_cube=frozenset({4, 8, 12, 16, 32}),
    ),
    Family(
        "v5e", "v5litepod", "ct5lp-hightpu-{}t", "tpu-v5-lite-podslice", 1, "tpuv5e", flat=("1x1", "2x2", *_FLAT),
        single={"1t": "1x1", "4t": "2x2", "8t": "2x4"}, also=("v5e", "v5lite"),
    ),
    Family(
        "v5p", "v5p", "ct5p-hightpu-{}t", "tpu-v5p-slice", 2, "tpuv5", cubes=140,
        nearest_to_cube=_MOSTLY | {108, 140}, also=("v5",),
    ),
    Family(
        "v6e", "v6e", "ct6e-standard-{}t", "tpu-v6e-slice", 1, "tpuv6e", flat=("1x1", "2x2", *_FLAT),
        single={"1t": "1x1", "4t": "2x2", "8t": "2x4"}, also=("v6", "trillium"),
    ),
    Family(
        "tpu7", "tpu7", "tpu7-standard-{}t", "tpu7", 2, "tpu7", cubes=4, nearest_to_cube=_MOSTLY, one_chip=True,
        devices_per_chip=2, workload_policy=True,
    ),
    Family(
        "tpu7x", "tpu7x", "tpu7x-standard-{}t", "tpu7x", 2, "tpu7x", cubes=144, one_chip=True, devices_per_chip=2,
        nearest_to_cube=_MOSTLY | {108, 128, 140, 144}, workload_policy=True, also=("v7", "v7x", "ironwood"),
    ),
)  # fmt: skip


def single_hosts(family: Family) -> Mapping[str, str]:
    """Returns the topology that one host of each of a family's machines is."""
    return family.single or {"4t": "2x2x1", **({"1t": "1x1x1"} if family.one_chip else {})}


@cache
def topologies(family: Family) -> Mapping[str, None]:
    """Returns all topologies of a family, small ones first."""
    if family.flat:
        return dict.fromkeys(family.flat)
    cubes = [shape for count in range(1, family.cubes + 1) for shape in _boxes(count, turned=family.turned)]
    small = ("1x1x1", *_SMALL) if family.one_chip else _SMALL
    return dict.fromkeys((*small, *(_written(shape) for shape in cubes)))


@cache
def plain_names(family: Family) -> Mapping[int, str]:
    """Returns the topology that each plain name of a family means, by the number in it."""
    if family.flat:
        return {chips_of(topology): topology for topology in family.flat}
    small = ("1x1x1", *_SMALL) if family.one_chip else _SMALL
    names = {chips_of(topology) * family.cores_per_chip: topology for topology in small}
    for count in range(1, family.cubes + 1):
        if boxes := list(_boxes(count, turned=False)):
            shape = min(boxes, key=sum) if count in family.nearest_to_cube else boxes[0]
            names[count * 64 * family.cores_per_chip] = _written(shape)
    return names


def _boxes(cubes: int, *, turned: bool) -> Iterator[tuple[int, int, int]]:
    """Yields the boxes that so many cubes make: sides in order of length, or (turned) in any order."""
    for a in range(1, cubes + 1):
        for b in range(1 if turned else a, cubes // a + 1):
            c, rest = divmod(cubes, a * b)
            if not rest and c <= _LONGEST_SIDE and (turned or c >= b):
                yield a, b, c


def _written(shape: tuple[int, int, int]) -> str:
    return "x".join(str(4 * side) for side in shape)


def chips_of(topology: str) -> int:
    """Returns how many chips a slice of a topology has."""
    return math.prod(int(side) for side in topology.split("x"))
