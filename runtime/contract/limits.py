"""What a machine can do at best, as its workers measured it when a run began: names, and one limit as written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.contract.record import record_of

CPU = "cpu"
MEMORY_COPY = "memory_copy"
DISK_WRITE = "disk_write"
DISK_READ = "disk_read"
HOST_TO_DEVICE = "host_to_device"
DEVICE_TO_HOST = "device_to_host"
NOISE = "noise"

LIMITS: Mapping[str, str] = {
    CPU: "one core hashing",
    MEMORY_COPY: "memory copied",
    DISK_WRITE: "disk write",
    DISK_READ: "disk read",
    HOST_TO_DEVICE: "host to device",
    DEVICE_TO_HOST: "device to host",
}
"""Each limit in bytes a second, with what people call it, in the order of measuring."""

SWITCH_VARIABLE = "SLICEBENCH_LIMITS"
"""Environment variable of workers: `off` leaves the measuring of limits out."""


@dataclass(frozen=True)
class Limit:
    """One limit on one worker, or why there is none: `values` in `unit`, one for each pass; empty when `skipped`.

    `how` says what was done, where that is a choice; `size_bytes` how much moved in a pass.
    """

    unit: str = "bytes/s"
    values: tuple[float, ...] = ()
    how: str = ""
    size_bytes: int = 0
    skipped: str = ""

    @property
    def best(self) -> float | None:
        """The highest of the passes: what can be reached; None when there is none."""
        return max(self.values, default=None)


@dataclass(frozen=True)
class Noise:
    """How much a block of fixed work differs from one time to the next: seconds of `blocks` equal blocks.

    Nine of ten lie between `low_s` and `high_s`.
    """

    blocks: int
    median_s: float
    low_s: float
    high_s: float
    slowest_s: float

    @property
    def spread(self) -> float:
        """Half of what nine of ten blocks span, over the median: a fraction."""
        return (self.high_s - self.low_s) / 2 / self.median_s if self.median_s > 0 else 0.0


@dataclass(frozen=True)
class Limits:
    """All limits of one worker, and the noise of its machine. `seconds` is what measuring them took."""

    of: Mapping[str, Limit] = field(default_factory=dict)
    noise: Noise | None = None
    seconds: float = 0.0


def limits_of(written: object) -> Limits:
    """Reads what a manifest says under `limits`, but for what cannot be understood: it stands beside results."""
    if not isinstance(written, Mapping):
        return Limits()
    found = {name: limit for name in LIMITS if (limit := _limit(written.get(name))) is not None}
    took = written.get("seconds")
    return Limits(found, _noise(written.get(NOISE)), float(took) if isinstance(took, int | float) else 0.0)


def _limit(written: Any) -> Limit | None:
    try:
        values = tuple(float(value) for value in written.get("values", ()) if float(value) > 0)
        return record_of(Limit, written, values=values)
    except (TypeError, ValueError, AttributeError):
        return None


def _noise(written: Any) -> Noise | None:
    try:
        noise = record_of(Noise, written)
        return noise if noise.median_s > 0 else None
    except TypeError:
        return None
