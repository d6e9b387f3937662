"""What the report says of hosts: what their processors, memory, networks and disks did while workers ran. Pure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.history.quantities import size
from tasks.history.report.lines import Cell

HEADINGS = ("host", "processors", "most memory", "most dirty pages", "network", "disks", "TPU")

Sampled = Mapping[int, bytes]
"""Worker → the content of its host's file; see runtime/supervision/host_counters.py."""


def host_rows(sampled: Sampled) -> list[tuple[Cell, ...]]:
    """Returns a row for each host, cells as in HEADINGS. Of workers on one host the first one's samples count."""
    rows: dict[str, tuple[list[int], list[Mapping[str, Any]]]] = {}
    for worker, content in sorted(sampled.items()):
        samples = list(_samples(content))
        if len(samples) > 1:
            host = str(samples[0].get("host", ""))
            rows.setdefault(host, ([], samples))[0].append(worker)
    return [_row(host, workers, samples) for host, (workers, samples) in rows.items()]


def _samples(content: bytes) -> Iterator[Mapping[str, Any]]:
    """Yields what can be read: the report of a run does not fail for what stands beside its results."""
    for line in content.splitlines():
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if isinstance(sample, dict) and isinstance(sample.get("at"), int | float):
            yield sample


def _row(host: str, workers: Sequence[int], samples: Sequence[Mapping[str, Any]]) -> tuple[Cell, ...]:
    first, last = samples[0], samples[-1]
    told = ", ".join(str(worker) for worker in workers)
    memory = [
        _number(each, "memory_bytes", "total") - _number(each, "memory_bytes", "available")
        for each in samples
    ]
    total = _number(first, "memory_bytes", "total")
    dirty = max(_number(each, "memory_bytes", "dirty") for each in samples)
    return (
        (host, f"worker{'s' * (len(workers) > 1)} {told}"),
        _busy(samples),
        (size(max(memory)), f"of {size(total)}") if total else ("–", ""),
        (size(dirty), "") if total else ("–", ""),
        _moved(first, last, "network_bytes", ("received", "sent")),
        _moved(first, last, "disk_bytes", ("read", "written")),
        _tpu(samples),
    )


def _busy(samples: Sequence[Mapping[str, Any]]) -> Cell:
    """Returns how busy the processors were from the first sample to the last, and at most between two."""
    shares = [
        share for one, other in itertools.pairwise(samples) if (share := _share(one, other)) is not None
    ]
    whole = _share(samples[0], samples[-1])
    return ("–", "") if whole is None else (f"{100 * whole:.0f} % busy", f"at most {100 * max(shares):.0f} %")


def _share(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    spent: dict[str, float] = {}
    for group in _section(other, "cpu_s"):
        for kind, value in _section(other, "cpu_s", group).items():
            spent[kind] = spent.get(kind, 0.0) + value - _number(one, "cpu_s", group, kind)
    total = sum(spent.values())
    return 1 - (spent.get("idle", 0.0) + spent.get("iowait", 0.0)) / total if total > 0 else None


def _moved(first: Mapping[str, Any], last: Mapping[str, Any], what: str, ways: tuple[str, str]) -> Cell:
    """Returns what went each way, and through which device most of it."""
    amounts = {
        name: [_number(last, what, name, way) - _number(first, what, name, way) for way in ways]
        for name in _section(last, what)
    }
    if not amounts:
        return "–", ""
    main = max(amounts, key=lambda name: sum(amounts[name]))
    sums = [max(0.0, sum(each[place] for each in amounts.values())) for place in range(2)]
    told = ", ".join(f"{size(total)} {way}" for total, way in zip(sums, ways, strict=True))
    return told, f"most through {main}"


def _tpu(samples: Sequence[Mapping[str, Any]]) -> Cell:
    devices = {name for each in samples for name in _section(each, "tpu")}
    if not devices:
        return "–", ""
    used = max(_number(each, "tpu", name, "memory_used_bytes") for each in samples for name in devices)
    duty = max(_number(each, "tpu", name, "duty_cycle_percent") for each in samples for name in devices)
    return f"{size(used)} on one of {len(devices)}", f"at most {duty:.0f} % busy"


def _section(sample: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found: Any = sample
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _number(sample: Mapping[str, Any], *path: str) -> float:
    value = _section(sample, *path[:-1]).get(path[-1])
    return float(value) if isinstance(value, int | float) else 0.0
