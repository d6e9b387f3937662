"""What a run takes of Cloud TPU: slices, workers and chips from the type, names from the lease, and the price."""

from __future__ import annotations

from runtime.contract.errors import BadInput, Problem
from runtime.contract.fit import Backend, fit
from tasks.cloud.google_place import region_of
from tasks.cloud.prices import load_prices
from tasks.cloud.resource_names import name_of
from tasks.cloud.tpu_types import TpuType, tpu_type
from tasks.config.spec import RunSpec
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.hosts import FOLDER, PROCESS
from tasks.leases.lease import lease_id
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import NODE, QUEUED
from tasks.targets.local_plan import bytes_of
from tasks.targets.tpu_capacity import dead_man
from tasks.targets.types import Plan

KEPT = (NODE, QUEUED, "directory", PROCESS, FOLDER)
"""Kinds that stay when hardware is kept: the machines, what is inside them, and the key to them."""


def plan(spec: RunSpec, config: TpuVmTargetConfig, project: str) -> Plan:
    """Returns the plan of a run on slices of a type. Pure. Raises BadInput when no point fits.

    What is made is named after the first epoch of the run's lease.
    """
    shape, slices = tpu_type(config.type), config.slices
    workers = shape.hosts * slices
    backend = Backend(config.platform, slices * shape.hosts * shape.devices_per_host, workers, slices)
    fitting = fit(spec.points, backend)
    if not fitting.points:
        raise BadInput(fitting.problems)
    return Plan(
        target=spec.target_name,
        resources=_resources(spec, config, project),
        workers=workers,
        slices=slices,
        devices_per_worker=shape.devices_per_host,
        platform=config.platform,
        # What is there already costs nothing more.
        price_per_hour=price_of(config, config.zones[0]) if config.existing is None else 0.0,
        warnings=_warnings(spec, config, shape, slices),
        output=spec.output,
        points=fitting.points,
        left_out=fitting.problems,
        bytes_per_save=max((bytes_of(point.checkpoint) for point in fitting.points), default=0),
        attempts=config.limits.attempts,
        keepable=KEPT if config.existing is None else (),
        locks=[(f"tpu {project}", config.existing)] if config.existing else (),
        lock_wait_s=spec.wait_for_lock_s,
        machine={"target": "tpu_vm", "type": shape.name, "region": region_of(next(iter(config.zones), ""))},
    )


def _resources(spec: RunSpec, config: TpuVmTargetConfig, project: str) -> list[ResourceRef]:
    zone = config.zones[0] if config.zones else "-"
    kind = QUEUED if config.as_queued else NODE
    if config.existing is not None:
        return [ResourceRef(kind, f"{project}/{zone}", config.existing, ours=False)]
    name = name_of(lease_id(spec.lease_name, 1))
    return [ResourceRef(kind, f"{project}/{zone}", name, dead_man=dead_man(config))]


def price_of(config: TpuVmTargetConfig, zone: str) -> float | None:
    """Returns what the slices cost an hour in a zone, in US dollars; None: not known."""
    shape, spot = tpu_type(config.type), config.tier == "spot"
    return load_prices().per_hour(shape.generation, shape.chips * config.slices, zone, spot=spot)


def _warnings(spec: RunSpec, config: TpuVmTargetConfig, shape: TpuType, slices: int) -> list[Problem]:
    """Says what is counted how, for types count TensorCores or chips, and slices are of one type each."""
    notes = []
    if config.existing is None and slices > 1:
        total = shape.chips * slices
        what = f"{config.type} is the type of one slice: {slices} slices x {shape} are {total} chips"
        notes.append(Problem("warning", None, what))
    if "://" not in spec.output and shape.hosts * slices > 1:
        what = (
            f"{shape.hosts * slices} workers would not write to one folder: {spec.output} is on each of them"
        )
        raise BadInput(Problem("error", None, what, fix="give --output gs://BUCKET/FOLDER"))
    if "://" not in spec.output and config.existing is None:
        what = f"{spec.output} would be on a machine that goes with the run"
        raise BadInput(Problem("error", None, what, fix="give --output gs://BUCKET/FOLDER"))
    return notes
