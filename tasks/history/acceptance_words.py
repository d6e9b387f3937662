"""An acceptance as people read it: the table of times and costs, what was proved, the verdict; and as numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.contract.counting import counted
from tasks.history.acceptance import Acceptance, Check, Judged
from tasks.history.acceptance_cost import Cost, Times
from tasks.history.changes import ratio
from tasks.history.intervals import CONFIDENCE, Interval
from tasks.history.quantities import between, percent, quantity, seconds, size

HEADINGS = ("variant", "what", "n", "median", "spread", "outliers", "cost", "its interval", "")

_WORDS = {True: "yes", False: "NO", None: "not known"}


def rows(found: Acceptance) -> list[tuple[str, ...]]:
    """Returns a row for each variant and operation; headings: HEADINGS."""
    return [
        (one.variant, operation, *time_cells(times), *cost_cells(one.costs.get(operation)))
        for one in found.variants
        for operation, times in one.times.items()
    ]


def lines(found: Acceptance) -> list[str]:
    """Returns what stands below the table: checkpoints, what was proved, why, and the verdict, last."""
    told = [f"{one.variant}: {stored(one)}" for one in found.variants if one.stored]
    for one in found.variants:
        told += [f"{one.variant}: {check_words(check)}" for check in one.checks]
    told += [f"{one.variant}: {one.verdict} ({one.reason})" for one in found.variants]
    return [*told, f"verdict: {found.verdict} (limit: {percent(found.limit)[1:]} more than {found.base})"]


def time_cells(times: Times) -> tuple[str, str, str, str]:
    """Returns how many there are, their median, from where to where those lie that are no outliers, and outliers."""
    off = ", ".join(f"{seconds(times.values[place])} (no. {place + 1})" for place in times.outliers)
    usual = between(Interval(times.low, times.high, 1.0), "s") if times.n > 1 else ""
    return str(times.n), seconds(times.median), usual or "–", off or "–"


def cost_cells(cost: Cost | None) -> tuple[str, str, str]:
    """Returns how much more it takes, between which bounds, and what that comes to; None: it is the base."""
    if cost is None:
        return "–", "–", "base"
    return ("–" if cost.effect is None else ratio(cost.effect)), interval_words(cost.interval), cost.standing


def interval_words(interval: Interval | None) -> str:
    """Returns the bounds of a cost, and how sure they are where that is less than usual."""
    if interval is None:
        return "–"
    sure = "" if interval.confidence >= CONFIDENCE else f" ({100 * interval.confidence:.0f} % sure)"
    return f"{ratio(interval.low)} … {ratio(interval.high)}{sure}"


def stored(one: Judged) -> str:
    """Returns what a checkpoint of a variant takes in the bucket."""
    if one.objects is None or one.stored_bytes is None:
        return "not known"
    whole = f"{one.objects:.0f}" if one.objects == int(one.objects) else quantity(one.objects, "count")
    numbers, sizes = stored_spread(one)
    told = f"{whole} objects{numbers and f' ({numbers})'}, {size(one.stored_bytes)}{sizes and f' ({sizes})'}"
    return f"{counted(len(one.stored), 'checkpoint')} of {told} (medians)"


def stored_spread(one: Judged) -> tuple[str, str]:
    """Returns from where to where objects and bytes of a variant's checkpoints go; empty: all have as many."""
    numbers, sizes = [each.objects for each in one.stored], [each.bytes for each in one.stored]
    return (
        f"{min(numbers)}–{max(numbers)}" if len(set(numbers)) > 1 else "",
        between(Interval(min(sizes), max(sizes), 1.0), "bytes") if len(set(sizes)) > 1 else "",
    )


def check_words(check: Check) -> str:
    """Returns what was to be proved, and whether it was."""
    return f"{check.name}: {_WORDS[check.passed]} ({check.told})"


def figures(found: Acceptance) -> dict[str, Any]:
    """Returns the same as numbers for programs, in seconds, bytes and fractions."""
    return {
        "verdict": found.verdict,
        "limit": found.limit,
        "base": found.base,
        "variants": [
            {
                "variant": one.variant,
                "verdict": one.verdict,
                "reason": one.reason,
                "checkpoints": len(one.stored),
                "objects": one.objects,
                "stored_bytes": one.stored_bytes,
                "stored": [vars(each) for each in one.stored],
                "operations": list(_operations(one)),
                "checks": [vars(check) for check in one.checks],
            }
            for one in found.variants
        ],
    }


def _operations(one: Judged) -> Iterator[dict[str, Any]]:
    for operation in dict.fromkeys([*one.times, *one.costs]):
        times, cost = one.times.get(operation), one.costs.get(operation)
        bounds = cost.interval if cost else None
        yield {
            "operation": operation,
            "seconds": list(times.values) if times else [],
            "median_s": times.median if times else None,
            "low_s": times.low if times else None,
            "high_s": times.high if times else None,
            "outliers": _values(times),
            "cost": cost.effect if cost else None,
            "cost_low": bounds.low if bounds else None,
            "cost_high": bounds.high if bounds else None,
            "cost_confidence": bounds.confidence if bounds else None,
            "standing": cost.standing if cost else None,
            "reason": cost.reason if cost else None,
        }


def _values(times: Times | None) -> Sequence[float]:
    return [times.values[place] for place in times.outliers] if times else []
