"""Looks every cell of a night over before anything begins: where it runs, what that costs, or why it cannot start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, Problem
from runtime.contract.yamlfile import place_of
from tasks.config import duration
from tasks.config.load import root_of
from tasks.config.nightly_cells import HERE, Cell, CellRun, Night, instead
from tasks.stages.flags_in_files import overrides_as_key
from tasks.stages.nightly_alerts import unaddressed
from tasks.stages.nightly_cost import Price, price_of
from tasks.stages.nightly_places import Places, places_of
from tasks.stages.prepare import resolve
from tasks.targets.open import open_target


@dataclass(frozen=True)
class Planned:
    """A cell and what it takes. `wrong`: why it cannot start, a line for each reason.

    `wait_for_lock`: how long its runs wait for hardware that others may be using.
    """

    cell: Cell
    places: Places
    price: Price = field(default_factory=Price)
    wait_for_lock: str = "0s"
    wrong: Sequence[str] = ()


def plan_cell(night: Night, cell: Cell) -> Planned:
    """Returns what a cell takes, having read its files and asked nobody."""
    sides: dict[str, CellRun] = {}
    for one in night.runs(cell):
        sides.setdefault(one.side, one)
    try:
        specs = {side: resolve(one.request, os.environ) for side, one in sides.items()}
    except BadInput as refusal:
        return Planned(
            cell, frozenset({f"target {cell.target}"}), wrong=[_of_cell(one) for one in refusal.problems]
        )
    spec = specs[HERE]
    plan = open_target(spec.target).plan(spec)
    price = price_of(spec.target, plan.price_per_hour)
    wait = night.config.wait_for_lock if plan.locks else "0s"
    return Planned(cell, places_of(cell.target, spec.target), price, wait)


def plan_night(night: Night) -> list[Planned]:
    """Returns that of all cells. Raises BadInput where not one of them can start, with all reasons."""
    planned = [plan_cell(night, cell) for cell in night.cells()]
    if all(one.wrong for one in planned):
        raise BadInput("\n".join(dict.fromkeys(reason for one in planned for reason in one.wrong)))
    return planned


def problems_of(night: Night) -> list[Problem]:
    """Returns why cells of a night cannot start, what is wrong in the files that it names, and what to know of it."""
    cells = [one for cell in night.cells() for one in (cell, *instead(night.config, cell))]
    wrong: dict[str, list[str]] = {}
    for cell in dict.fromkeys(cells):
        for reason in plan_cell(night, cell).wrong:
            wrong.setdefault(reason, []).append(cell.title)
    # Where it is checked need not be where it is played, by somebody else and with other secrets.
    hooks = [replace(one, severity="warning") for one in unaddressed(night)]
    told = [Problem("error", None, f"{_titles(titles)}: {reason}") for reason, titles in wrong.items()]
    return [*told, *hooks, *warnings_of(night)]


def _titles(titles: Sequence[str]) -> str:
    others = len(titles) - 1
    return f"{titles[0]} and {counted(others, 'more cell')}" if others else titles[0]


def warnings_of(night: Night) -> list[Problem]:
    """Returns what of a night may be meant otherwise."""
    limits = night.config.limits
    if duration.seconds(limits.cell) <= duration.seconds(limits.night):
        return []
    place = place_of(root_of(Path(night.file)), ("limits",)) if night.file else None
    what = f"a run may take {limits.cell}, and the whole night {limits.night}"
    why = "what begins late goes on after its end"
    return [Problem("warning", place, what, why, f"write cell: {limits.night}, or a longer night")]


def _of_cell(problem: Problem) -> str:
    """Returns a problem of a run as one of a nightly, where no flag can be given to it alone."""
    return str(replace(problem, fix=overrides_as_key(problem.fix, ", of all its suites")))
