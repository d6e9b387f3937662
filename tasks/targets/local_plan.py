"""What a run takes of this machine: workers and devices from the suite's meshes, bytes from its
checkpoints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, Problem
from runtime.contract.fit import Backend, devices_wanted, fit
from runtime.contract.suite import ArraySpec, CheckpointSpec
from tasks.config.spec import RunSpec
from tasks.config.target import LocalTargetConfig
from tasks.leases.resource import ResourceRef
from tasks.targets.types import Plan, Worker, Workload


def plan(spec: RunSpec, host: str, scratch: str) -> Plan:
    """Returns the plan of a run on this machine. Pure. Raises BadInput when no point fits."""
    config = spec.target
    if not isinstance(config, LocalTargetConfig):
        raise TypeError(f"{type(config).__name__} describes no local target")
    warnings: list[Problem] = []
    workers, devices = divide(config, devices_wanted(spec.points), warnings)
    backend = Backend(
        platform=config.platform,
        devices=workers * devices,
        workers=workers,
        slices=config.slices,
    )
    fitting = fit(spec.points, backend)
    if not fitting.points:
        raise BadInput(fitting.problems)
    supervisors = [
        ResourceRef("process", host, f"supervisor of worker {worker}", dead_man="ends with its owner")
        for worker in range(workers)
    ]
    return Plan(
        target=spec.target_name,
        resources=(ResourceRef("directory", host, scratch), *supervisors),
        workers=workers,
        slices=config.slices,
        devices_per_worker=devices,
        platform=config.platform,
        price_per_hour=0.0,
        warnings=tuple(warnings),
        output=spec.output,
        points=fitting.points,
        left_out=fitting.problems,
        bytes_per_save=max((bytes_of(point.checkpoint) for point in fitting.points), default=0),
    )


class Shape(Protocol):
    """How many workers a target has, in how many slices, with how many devices each."""

    @property
    def workers(self) -> int: ...
    @property
    def slices(self) -> int: ...
    @property
    def devices_per_worker(self) -> int | Literal["auto"]: ...


def divide(config: Shape, wanted: int | None, warnings: list[Problem] | None = None) -> tuple[int, int]:
    """Returns how many workers with how many devices each: fewer workers when `wanted` devices do not divide.

    Raises BadInput when the workers cannot be divided evenly over the slices.
    """
    if config.workers % config.slices:
        raise BadInput(
            f"{counted(config.workers, 'worker')} cannot be divided evenly over {config.slices} slices",
            fix=f"use {config.slices * -(-config.workers // config.slices)} workers, or fewer slices",
        )
    if config.devices_per_worker != "auto":
        return config.workers, config.devices_per_worker
    if wanted is None:
        return config.workers, 1
    fewer = range(config.workers, 0, -config.slices)
    workers = next((count for count in fewer if wanted % count == 0), None)
    if workers is None:
        raise BadInput(
            f"the suite's meshes take {counted(wanted, 'device')}, which {config.slices} slices cannot share evenly",
            fix="use fewer slices, or say devices_per_worker",
        )
    if workers < config.workers and warnings is not None:
        takes = counted(wanted, "device")
        why = f"the suite's meshes take {takes}, which {config.workers} workers cannot share evenly"
        warnings.append(
            Problem("warning", None, f"only {workers} of {config.workers} workers can be used", why)
        )
    return workers, wanted // workers


def own_folder(workload: Workload, worker: Worker) -> str | None:
    """Returns where a worker keeps local tiers of checkpoints: its own folder, as if it had a host to itself."""
    if workload.local_directory is None:
        return None
    return f"{workload.local_directory.rstrip('/')}/{workload.run_id}-w{worker.index:04d}"


def bytes_of(checkpoint: CheckpointSpec) -> int:
    """Returns how many bytes the arrays of a checkpoint take together; 0 when it is read from a path."""
    return _bytes_of_tree(checkpoint.spec or {})


def _bytes_of_tree(tree: Mapping[str, Any]) -> int:
    total = 0
    for node in tree.values():
        if isinstance(node, ArraySpec):
            total += math.prod(node.shape) * _item_bits(node.dtype) // 8
        elif isinstance(node, Mapping):
            total += _bytes_of_tree(node)
    return total


def _item_bits(dtype: str) -> int:
    """Returns the bits of a jax.numpy dtype: the first number in its name, but for bool."""
    number = re.search(r"\d+", dtype)
    return int(number[0]) if number else 8
