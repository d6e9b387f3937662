"""Looks every cell of a night over before anything begins: where it runs, what that costs, or why it cannot start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import BadInput, Problem
from tasks.config.nightly_cells import HERE, Cell, CellRun, Night
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
            cell, frozenset({f"target {cell.target}"}), wrong=[str(one) for one in refusal.problems]
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
        reasons = dict.fromkeys(reason for one in planned for reason in one.wrong)
        raise BadInput("\n".join(reasons) or "every cell of the matrix is excluded")
    return planned


def problems_of(night: Night) -> list[Problem]:
    """Returns why cells of a night cannot start: what is wrong in the files that it names."""
    wrong = {
        f"{cell.title}: {reason}": None for cell in night.cells() for reason in plan_cell(night, cell).wrong
    }
    return [Problem("error", None, reason) for reason in wrong]
