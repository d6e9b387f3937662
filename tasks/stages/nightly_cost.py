"""What a night costs: chips × hours × list prices; and the purse, out of which nothing begins that may cost more."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.contract.errors import ELSEWHERE
from runtime.contract.names import STAGES_FOLDER
from runtime.contract.record import record_of
from tasks.cloud.storage import open_folder, read_json
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.nightly_run import RunEnd
from tasks.stages.used import Used


@dataclass(frozen=True)
class Price:
    """Of a target's hardware: `chips` (None: nobody knows how many) and US dollars an hour (None: not known).

    `most_per_hour`: what it costs where it is dearest, of the zones that are tried.
    """

    chips: int | None = None
    per_hour: float | None = None
    most_per_hour: float | None = None

    def at_most(self, hours: float) -> float | None:
        """Returns what some hours cost wherever it is had; None: not known."""
        most = self.per_hour if self.most_per_hour is None else self.most_per_hour
        return None if most is None else most * hours

    def of(self, hours: float) -> Cost:
        """Returns the cost of some hours of it."""
        return Cost(
            None if self.chips is None else self.chips * hours,
            None if self.per_hour is None else self.per_hour * hours,
        )


@dataclass(frozen=True)
class Cost:
    """Chip-hours and US dollars; None: not known. `used`: of what was made where, and how that is paid for."""

    chip_hours: float | None = 0.0
    dollars: float | None = 0.0
    used: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            _sum(self.chip_hours, other.chip_hours),
            _sum(self.dollars, other.dollars),
            tuple(dict.fromkeys((*self.used, *other.used))),
        )


def chips_of(target: TargetConfig) -> int | None:
    """Returns the accelerator chips of a target; CPUs are none."""
    if isinstance(target, TpuVmTargetConfig):
        from tasks.cloud.tpu_types import tpu_type

        return tpu_type(target.type).chips * target.slices
    if isinstance(target, GkeTargetConfig):
        return 0 if target.shape.kind == "cpu" else target.shape.chips * target.slices
    if isinstance(target, LocalTargetConfig):
        return 0 if target.platform == "cpu" else None
    return None


def price_of(target: TargetConfig, planned: float | None) -> Price:
    """Returns the price of a target, of which a plan says `planned`: that of the zone that is tried first."""
    if not isinstance(target, TpuVmTargetConfig) or not planned:
        return Price(chips_of(target), planned)
    from tasks.targets import tpu_plan

    prices = [price for zone in target.zones if (price := tpu_plan.price_of(target, zone)) is not None]
    return Price(chips_of(target), planned, max(prices, default=None))


def cost_of(end: RunEnd, planned: Price) -> Cost:
    """Returns what a run cost: its hardware from when that was asked for until it was given back.

    By the zone and the kind of capacity that it had; as `planned` where it did not write that down.
    """
    if end.began_at is None or end.ended_at is None or end.trouble in ELSEWHERE:
        return Cost()
    folder = open_folder(end.folder)
    built = _finished_at(read_json(folder, f"{STAGES_FOLDER}/build.json"))
    given_back = _finished_at(read_json(folder, f"{STAGES_FOLDER}/teardown.json")) or end.ended_at
    if built is None:  # it ended before it asked for any
        return Cost()
    begins = max(built, end.began_at)
    hours = max(0.0, given_back - begins) / 3600
    used = _used(read_json(folder, f"{STAGES_FOLDER}/provision.json"))
    if not used:
        return planned.of(hours)
    edges = [begins, *(max(begins, one.since) for one in used[1:]), given_back]
    total = Cost(
        planned.of(hours).chip_hours, 0.0, tuple(dict.fromkeys(one.words for one in used if one.words))
    )
    for one, since, until in zip(used, edges, edges[1:], strict=False):
        total += Cost(0.0, Price(None, one.price_per_hour).of(max(0.0, until - since) / 3600).dollars)
    return total


def _used(marker: object) -> list[Used]:
    """Returns the hardware that a run had, one after the other; nothing where that was not written down."""
    outputs = marker.get("outputs") if isinstance(marker, Mapping) else None
    found = outputs.get("used") if isinstance(outputs, Mapping) else None
    try:
        return [record_of(Used, one) for one in found] if isinstance(found, list) else []
    except TypeError:
        return []


def _finished_at(marker: object) -> float | None:
    at = marker.get("finished_at") if isinstance(marker, Mapping) else None
    return float(at) if isinstance(at, int | float) else None


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass
class Purse:
    """What a night may cost. Any thread may ask it. What has no price, or none that is known, is not counted."""

    budget: float | None
    spent: float = 0.0
    promised: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, most: float | None) -> str | None:
        """Sets aside what a run may cost at most; returns why that is too much, having set aside nothing."""
        if self.budget is None or not most:
            return None
        with self._lock:
            left = self.budget - self.spent - self.promised
            if most > left:
                return (
                    f"the budget of ${self.budget:.2f} a night has ${max(0.0, left):.2f} left, "
                    f"and the run may cost up to ${most:.2f}"
                )
            self.promised += most
            return None

    def settle(self, most: float | None, spent: float | None) -> None:
        """Puts what a run has cost in place of what was set aside for it."""
        with self._lock:
            self.spent += spent or 0.0
            if self.budget is not None and most:
                self.promised -= most
