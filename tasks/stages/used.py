"""What a run really got: in which zone, how it is paid for, and what that costs, whatever was asked for first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.config.gke_target import GkeTargetConfig
from tasks.config.target import TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.holding import Holding
from tasks.leases.resource import ResourceRef


@dataclass(frozen=True)
class Used:
    """Hardware from a moment on, in seconds since the epoch. `zone` is empty where nothing was made.

    `capacity` is how it is paid for: on demand, spot, reserved; `price_per_hour` in US dollars; None: not known.
    """

    since: float
    zone: str = ""
    capacity: str = ""
    price_per_hour: float | None = 0.0

    @property
    def words(self) -> str:
        """Returns what people read; empty where nothing was made."""
        return f"{self.capacity} in {self.zone}" if self.zone else ""


def used_of(config: TargetConfig, lease: Holding, asked: float | None, since: float) -> Used:
    """Returns what a lease has made for a target. `asked`: the price that was planned, for what has but one."""
    made = [ref for ref in lease.lease.resources if ref.ours]
    if isinstance(config, TpuVmTargetConfig):
        return _slices(config, made, since)
    if isinstance(config, GkeTargetConfig):
        return _cluster(config, made, lease, asked, since)
    return Used(since, price_per_hour=asked)


def _slices(config: TpuVmTargetConfig, made: Sequence[ResourceRef], since: float) -> Used:
    from tasks.leases.tpus import NODE, QUEUED
    from tasks.targets.tpu_plan import price_of

    zone = next((ref.scope.rpartition("/")[2] for ref in made if ref.kind in (NODE, QUEUED)), "")
    if not zone:
        return Used(since)
    return Used(since, zone, config.tier.replace("_", " "), price_of(config, zone))


def _cluster(
    config: GkeTargetConfig, made: Sequence[ResourceRef], lease: Holding, asked: float | None, since: float
) -> Used:
    """Returns it of the machines of a cluster: those that runs made go with the last of them; others cost nothing."""
    from tasks.leases.clusters import KINDS
    from tasks.leases.shares import shared_by

    shared = [lease.ledger.read(name) for name in shared_by(lease.lease)]
    of_runs = any(one is not None and one.run_id is not None and not one.stands for one in shared)
    if config.cluster is None or not (of_runs or any(ref.kind in KINDS for ref in made)):
        return Used(since)
    place = config.cluster
    capacity = place.capacity_made.replace("_", " ")
    return Used(since, place.zone or place.location or "", capacity, asked)


def with_before(marker: Mapping[str, Any] | None, now: Used) -> list[dict[str, Any]]:
    """Returns what the stage's marker has of earlier hardware of the run, with what came now, as JSON has it."""
    before = marker["outputs"].get("used") if marker else None
    earlier = [one for one in before if isinstance(one, dict)] if isinstance(before, list) else []
    latest = asdict(now)
    if earlier and {**earlier[-1], "since": now.since} == latest:
        return earlier
    return [*earlier, latest]
