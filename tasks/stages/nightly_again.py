"""Which benchmarks of a cell are run again in a night: those that stood out, as they are run among all of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from runtime.contract.expand import REFERENCE
from runtime.contract.suite import Point
from runtime.contract.suite_reader import read_suite
from tasks.config.request import RunRequest
from tasks.stages.prepare import resolve


@dataclass(frozen=True)
class Repeated:
    """The keys of the benchmarks that a second run measures, none: all; and that in words."""

    only: tuple[str, ...] = ()
    words: str = "all of it"


def repeated(request: RunRequest, keys: Collection[str]) -> Repeated:
    """Returns what is run again of a run in which the benchmarks of these keys stood out; of none: all of it.

    The first benchmark of the suite is always among them: what a process does once, it has done before the others
    begin, as it had in the first run. So are those that take turns with one that stood out. Where the suite cannot be
    read any more it is all of it too: the run itself says what is wrong.
    """
    if not keys:
        return Repeated()
    try:
        spec = resolve(request, os.environ)
    except BadInput:
        return Repeated()
    turns = read_suite(spec.suite_text, spec.suite_path).interleave
    chosen = [one for group in _groups(spec.points, turns) for one in group if _repeats(group, keys)]
    made = [one for one in spec.points if one.generator == REFERENCE]
    everything = {one.index for one in (*chosen, *made)} == {one.index for one in spec.points}
    if everything:
        return Repeated()
    return Repeated(
        tuple(one.key for one in chosen), f"{len(chosen)} of {counted(len(spec.points), 'benchmark')}"
    )


def _repeats(group: Sequence[Point], keys: Collection[str]) -> bool:
    return any(one.key in keys or one.index == 0 for one in group)


def _groups(points: Sequence[Point], turns: bool) -> list[list[Point]]:
    """Returns points that take turns, if any do: those of one class that follow each other."""
    groups: list[list[Point]] = []
    for one in points:
        if turns and groups and groups[-1][0].generator == one.generator:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
