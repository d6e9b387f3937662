"""What the accelerators of a cluster cost an hour, all of them or those of the slices that are there."""

from __future__ import annotations

from tasks.cloud.prices import load_prices
from tasks.config.cluster import ClusterConfig


def price_of(config: ClusterConfig, slices: int | None = None) -> float | None:
    """Returns US dollars an hour for so many slices, None: for as many as are wanted; None where it is not known."""
    shape = config.shape
    if shape is None or shape.kind != "tpu":
        return None
    machines = config.machines if slices is None else slices * shape.hosts
    return load_prices().per_hour(
        shape.family, shape.chips_per_host * machines, config.zone, spot=config.capacity == "spot"
    )
