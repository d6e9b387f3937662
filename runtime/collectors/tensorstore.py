"""What TensorStore counted during a block: requests, bytes, cache hits, time in stores and thread pool."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.collectors.differences import Differences
from runtime.measure import Collector, Value

_SCALES: Mapping[str, float] = {"_ns": 1e-9, "_us": 1e-6, "_ms": 1e-3}


def tensorstore() -> Collector:
    """Returns the collector of the counters that change; a distribution gives a count and a sum."""
    return Differences(_collect, _changed)


def counters(collected: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Returns the value of every counter by (metric, unit).

    Gauges are left out: what is alive now, or was the most ever, says nothing of one block.
    """
    found: dict[tuple[str, str], float] = {}
    for entry in collected:
        for cell in entry["values"]:
            labels = [text for key, text in sorted(cell.items()) if isinstance(text, str) and key != "value"]
            name = "/".join([entry["name"].lstrip("/"), *labels])
            if "mean" in cell and "count" in cell:
                base, unit, scale = _unit(name)
                found[f"{base.removesuffix('_s')}_count", "count"] = float(cell["count"])
                found[base if unit == "s" else f"{base}_sum", unit] = cell["mean"] * cell["count"] * scale
            elif "max_value" not in cell and isinstance(cell.get("value"), int | float):
                base, unit, scale = _unit(name)
                found[base, unit] = cell["value"] * scale
    return found


@functools.cache
def _unit(name: str) -> tuple[str, str, float]:
    """Returns the name with times in seconds, the unit, and what to multiply by."""
    for ending, scale in _SCALES.items():
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}_s", "s", scale
    is_bytes = "bytes" in name or name.endswith("_size")
    return name, "bytes" if is_bytes else "count", 1.0


def _collect() -> Sequence[Mapping[str, Any]]:
    import tensorstore

    collected: Sequence[Mapping[str, Any]] = tensorstore.experimental_collect_matching_metrics(
        "/tensorstore/"
    )
    return collected


def _changed(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[Value]:
    # Of some hundred counters a block moves a few: only those are taken apart.
    known = {entry["name"]: entry for entry in before}
    moved = [entry for entry in after if entry != known.get(entry["name"])]
    first = counters([known[entry["name"]] for entry in moved if entry["name"] in known])
    for (metric, unit), value in counters(moved).items():
        change = value - first.get((metric, unit), 0.0)
        if change:
            yield Value(metric, change, unit)
