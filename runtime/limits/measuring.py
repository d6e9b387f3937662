"""Measures what this worker's machine can do at best: once in an attempt, a second or two before its first point."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime import distributed, manifest
from runtime.contract.limits import CPU, MEMORY_COPY, NOISE
from runtime.limits import devices, disk, host
from runtime.settings import Settings

_FILE = "limits.json"
"""In the worker's scratch: sessions of one attempt share what the first has measured."""

_KNOWN, _UNKNOWN, _NOT_WANTED = range(3)


def limits_here(settings: Settings, scratch: Path, wanted: bool) -> Mapping[str, Any]:
    """Returns the limits as the manifest has them. To be called by all workers: they measure at the same time.

    A session that goes on after others takes what the first measured: workers that were killed measure nothing while
    somebody times how long they take to come back.
    """
    known = _recall(scratch, settings.attempt)
    if settings.restart is not None and settings.restart.point is None:
        return known or {"skipped": "this worker had to start again"}
    needed = distributed.largest(_NOT_WANTED if not wanted else _UNKNOWN if known is None else _KNOWN)
    if needed == _NOT_WANTED:
        return {"skipped": "not asked for"}
    if needed == _KNOWN and known is not None:
        return known
    begin = time.perf_counter()
    free = host.free_memory() // _workers_here(settings)
    cpu, noise = _together(host.cpu_and_noise)
    found = {CPU: cpu, MEMORY_COPY: _together(lambda: host.memory_copy(free))}
    name = f".limits-{settings.membership.worker}-{os.getpid()}"
    found |= disk.disk(settings.output, manifest.file_system(settings.output), name, _meet)
    found |= devices.transfers(free, _meet)
    limits: dict[str, Any] = {limit: asdict(value) for limit, value in found.items()}
    limits |= {NOISE: asdict(noise), "seconds": time.perf_counter() - begin}
    _remember(scratch, settings.attempt, limits)
    return limits


def _together(measured: Any) -> Any:
    _meet()
    return measured()


def _meet() -> None:
    distributed.agree(None)


def _workers_here(settings: Settings) -> int:
    """How many workers may share this host's memory: nobody tells, and all of them is safe."""
    return max(1, min(settings.membership.workers, 16))


def _recall(scratch: Path, attempt: int) -> Mapping[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((scratch / _FILE).read_text())
        if isinstance(known, dict) and known.pop("attempt", None) == attempt:
            return known
    return None


def _remember(scratch: Path, attempt: int, limits: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # then the next session measures again
        (scratch / _FILE).write_text(json.dumps({"attempt": attempt, **limits}))
