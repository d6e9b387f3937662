"""What a night costs: chips × hours × list prices; and the purse, out of which nothing begins that may cost more."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.contract.errors import ELSEWHERE
from runtime.contract.names import STAGES_FOLDER
from tasks.cloud.storage import open_folder, read_json
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.nightly_run import RunEnd


@dataclass(frozen=True)
class Price:
    """Of a target's hardware: `chips` (None: nobody knows how many) and US dollars an hour (None: not known)."""

    chips: int | None = None
    per_hour: float | None = None

    def of(self, hours: float) -> Cost:
        """Returns the cost of some hours of it."""
        return Cost(
            None if self.chips is None else self.chips * hours,
            None if self.per_hour is None else self.per_hour * hours,
        )


@dataclass(frozen=True)
class Cost:
    """Chip-hours and US dollars; None: not known."""

    chip_hours: float | None = 0.0
    dollars: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(_sum(self.chip_hours, other.chip_hours), _sum(self.dollars, other.dollars))


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


def hours_of(end: RunEnd) -> float:
    """Returns how long a run had its hardware, at most: from when that was asked for until it was given back."""
    if end.began_at is None or end.ended_at is None or end.trouble in ELSEWHERE:
        return 0.0
    folder = open_folder(end.folder)
    built = _finished_at(read_json(folder, f"{STAGES_FOLDER}/build.json"))
    given_back = _finished_at(read_json(folder, f"{STAGES_FOLDER}/teardown.json"))
    if built is None:  # it ended before it asked for any
        return 0.0
    return max(0.0, (given_back or end.ended_at) - max(built, end.began_at)) / 3600


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
