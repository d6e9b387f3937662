"""What would stop a run on this machine: memory, disk, processors, GPUs. `look` looks, `preflight`
judges."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from runtime.contract.errors import Problem
from tasks.targets.local_gpus import usable
from tasks.targets.types import Plan

_WORKER_BYTES = 400 * 2**20
"""What one worker takes before it makes any data: Python, JAX and Orbax imported, measured 300 to
400 MiB."""


@dataclass(frozen=True)
class Machine:
    """What there is: bytes of memory and (None: not on this machine) of disk, processors, GPUs that may be used."""

    memory: int
    disk: int | None
    processors: int
    gpus: int


def look(output: str) -> Machine:
    """Looks at this machine and at the file system that `output` lies on."""
    disk = None
    if output and "://" not in output:
        folder = Path(output).expanduser().absolute()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        disk = psutil.disk_usage(str(there)).free
    gpus = usable(os.environ)
    return Machine(psutil.virtual_memory().available, disk, len(os.sched_getaffinity(0)), gpus)


def preflight(plan: Plan, machine: Machine) -> list[Problem]:
    """Returns errors for what cannot work and warnings for what will disturb the numbers. Pure."""
    problems = []
    if plan.platform == "gpu" and machine.gpus < plan.workers * plan.devices_per_worker:
        problems.append(
            Problem(
                "error",
                None,
                f"{plan.workers * plan.devices_per_worker} GPUs are needed, a run may use {machine.gpus} here",
                fix="see that the driver is loaded and that CUDA_VISIBLE_DEVICES leaves enough, or use platform: cpu",
            )
        )
    workers = plan.workers * _WORKER_BYTES
    # A benchmark holds what it saves and what it restores at the same time, and keeps more than one save.
    needs = [("disk", plan.bytes_per_save, 3 * plan.bytes_per_save, machine.disk)]
    if plan.platform == "cpu":
        good = workers + 2 * plan.bytes_per_save
        needs.append(("memory", workers + plan.bytes_per_save, good, machine.memory))
    for what, least, good, there in needs:
        if there is not None and there < good:
            problems.append(_short(what, least, good, there, plan.output))
    if plan.workers > machine.processors:
        problems.append(
            Problem(
                "warning",
                None,
                f"{plan.workers} workers share {machine.processors} processors",
                "they will be measured waiting for each other",
            )
        )
    return problems


def _short(what: str, least: int, good: int, there: int, output: str) -> Problem:
    where = f" at {output}" if what == "disk" else ""
    told = (
        f"{what} is short{where}: about {good / 2**20:.0f} MiB are needed, {there / 2**20:.0f} MiB are free"
    )
    if there < least:
        fix = "name another folder with --output" if what == "disk" else "use fewer workers"
        return Problem("error", None, told, fix=f"{fix}, or smaller arrays")
    why = "a save may fail" if what == "disk" else "swapping may be measured instead of checkpoints"
    return Problem("warning", None, told, why)
