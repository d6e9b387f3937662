"""What the report says of limits: what the machines could do at best when the run began. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.contract.limits import LIMITS, Limits
from tasks.history.limits import limits_by_worker
from tasks.history.quantities import plus_minus, seconds, size, speed
from tasks.history.report.lines import Cell
from tasks.history.results import Results

HEADINGS = ("limit", "all workers", "slowest worker", "how")


def limit_rows(results: Results) -> list[tuple[Cell, ...]]:
    """Returns a row for each limit that a worker measured or skipped, cells as in HEADINGS, and one for the noise."""
    workers = limits_by_worker(results)
    rows = [row for name in LIMITS if (row := _row(name, workers)) is not None]
    return [*rows, *_noise(workers)] if rows else []


def _row(name: str, workers: Mapping[int, Limits]) -> tuple[Cell, ...] | None:
    told = {worker: limits.of[name] for worker, limits in workers.items() if name in limits.of}
    if not told:
        return None
    best = {worker: limit.best for worker, limit in told.items() if limit.best is not None}
    first = next(iter(told.values()))
    if len(best) < len(told) or len(told) < len(workers):
        why = next((limit.skipped for limit in told.values() if limit.skipped), "not all workers measured it")
        return (LIMITS[name], ""), ("–", ""), ("–", ""), (why, "")
    slowest = min(best, key=best.__getitem__)
    differ = max(max(limit.values) / min(limit.values) - 1 for limit in told.values())
    return (
        (LIMITS[name], ""),
        (speed(sum(best.values())), f"passes differ by up to {100 * differ:.0f} %"),
        (speed(best[slowest]), f"worker {slowest}" if len(best) > 1 else ""),
        (first.how, f"{size(first.size_bytes)} a pass"),
    )


def _noise(workers: Mapping[int, Limits]) -> Iterator[tuple[Cell, ...]]:
    known = {worker: limits.noise for worker, limits in workers.items() if limits.noise is not None}
    if not known:
        return
    worker = max(known, key=lambda each: known[each].spread)
    noise = known[worker]
    yield (
        ("noise of the machine", "equal blocks of work, one after another"),
        (plus_minus(noise.spread), "nine of ten blocks are within"),
        (seconds(noise.slowest_s), f"slowest block; median {seconds(noise.median_s)}"),
        (f"{noise.blocks} blocks", f"of worker {worker}, the noisiest" if len(known) > 1 else ""),
    )
