"""What was measured beside what the machine can do: how near an operation came to its limit, and whether that moved.

The limits are those of all workers at once: each measured its own while the others did the same. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.limits import (
    DEVICE_TO_HOST,
    DISK_READ,
    DISK_WRITE,
    HOST_TO_DEVICE,
    LIMITS,
    Limit,
    Limits,
    limits_of,
)
from runtime.contract.roles import Role
from tasks.history.intervals import median
from tasks.history.quantities import percent, speed
from tasks.history.results import Results
from tasks.history.summary import OperationSummary, summarize_passed

_BOUNDS: Mapping[Role, Sequence[str]] = {
    "save": (DISK_WRITE, DEVICE_TO_HOST),
    "restore": (DISK_READ, HOST_TO_DEVICE),
}
"""What an operation cannot be faster than."""

_BEYOND = 1.1
"""More than this of a limit is beyond what it can be mistaken by."""

_LEAST_SHIFT = 0.1
"""Limits that moved by less are not told of."""

Known = Mapping[str, Sequence[float]]
"""Name of a limit → bytes a second of all workers together, for each pass of measuring."""


@dataclass(frozen=True)
class Share:
    """How near an operation came to the lowest of its limits: a fraction of it."""

    limit: str
    bytes_per_s: float
    share: float

    @property
    def words(self) -> str:
        """The same for people."""
        return f"{100 * self.share:.0f} % of {LIMITS[self.limit]}"

    @property
    def is_beyond(self) -> bool:
        """Whether that cannot be: the page cache answered, or less was moved because data was compressed."""
        return self.share > _BEYOND


def limits_by_worker(results: Results) -> dict[int, Limits]:
    """Returns what each worker measured, by worker."""
    return {int(told["worker"]): limits_of(told) for told in results.limits if "worker" in told}


def together(results: Results) -> Known:
    """Returns the limits of all workers at once; none that some worker does not know."""
    workers = list(limits_by_worker(results).values())
    if len(workers) < results.workers or not workers:
        return {}
    found = {}
    for name in LIMITS:
        passes = [one.of.get(name, Limit()).values for one in workers]
        if least := min(len(values) for values in passes):
            found[name] = [sum(values[n] for values in passes) for n in range(least)]
    return found


def share_of(operation: OperationSummary, known: Known) -> Share | None:
    """Returns how near an operation came to what bounds it; None where nothing is known that does."""
    bounds = {name: max(known[name]) for name in _BOUNDS.get(operation.role, ()) if name in known}
    if not bounds or not operation.bytes_per_s:
        return None
    lowest = min(bounds, key=bounds.__getitem__)
    return Share(lowest, bounds[lowest], operation.bytes_per_s / bounds[lowest])


def beyond(results: Results) -> list[str]:
    """Says of each operation that was faster than its limit allows in how many benchmarks, one line for each."""
    known, found = together(results), dict[tuple[str, str], list[Share]]()
    for operations in summarize_passed(results).values():
        for one in operations:
            share = share_of(one, known)
            if share is not None and share.is_beyond:
                found.setdefault((one.operation, share.limit), []).append(share)
    return [
        f"{operation} went at up to {max(one.share for one in shares):.1f} times what {LIMITS[limit]} gives"
        f" ({speed(shares[0].bytes_per_s)}): {_why(limit)}"
        for (operation, limit), shares in found.items()
    ]


def _why(limit: str) -> str:
    if limit == DISK_READ:
        return "the page cache answered, or what was stored is compressed"
    if limit == DISK_WRITE:
        return "not all had reached the disk, or what was stored is compressed"
    return "not all of it passed there, or that limit was measured in a bad moment"


def shifts(current: Results, earlier: Sequence[Results]) -> list[str]:
    """Says which limits moved against earlier runs by more than they ever did, or than their own passes differ."""
    now, before = together(current), [together(past) for past in earlier]
    told = []
    for name, passes in now.items():
        known = [past[name] for past in before if name in past]
        if not known:
            continue
        bests = [max(values) for values in known]
        usual = median(bests)
        moved = math.log(max(passes) / usual)
        noise = max(
            *(abs(math.log(best / usual)) for best in bests),
            *(math.log(max(values) / min(values)) for values in (passes, *known)),
        )
        if abs(moved) > max(noise, math.log1p(_LEAST_SHIFT)):
            runs = "the earlier run" if len(bests) == 1 else f"{len(bests)} earlier runs"
            change = percent(math.expm1(moved))
            told.append(
                f"the machine differs: {LIMITS[name]} gives {speed(max(passes))}, {change} against {runs}"
            )
    return told
