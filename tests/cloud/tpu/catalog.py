"""What the stand-in offers: zones, accelerator types with their chips and hosts, runtime versions. Its own table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """An accelerator type: how many chips and hosts one node of it has."""

    name: str
    family: str
    chips: int
    hosts: int


def _cores(family: str, sizes: list[int]) -> dict[str, Kind]:
    """Types counted in TensorCores: two a chip, four chips a host."""
    return {f"{family}-{n}": Kind(f"{family}-{n}", family, n // 2, max(1, n // 8)) for n in sizes}


def _chips(family: str, sizes: list[int]) -> dict[str, Kind]:
    """Types counted in chips: up to eight on one host, above that four a host."""
    return {f"{family}-{n}": Kind(f"{family}-{n}", family, n, 1 if n <= 8 else n // 4) for n in sizes}


KINDS: dict[str, Kind] = {
    **_cores("v2", [8, 32, 128, 256, 512]),
    **_cores("v3", [8, 32, 64, 128, 256, 512, 1024, 2048]),
    **_cores("v4", [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]),
    **_chips("v5litepod", [1, 4, 8, 16, 32, 64, 128, 256]),
    **_cores("v5p", [8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024, 2048, 4096, 12288]),
    **_chips("v6e", [1, 4, 8, 16, 32, 64, 128, 256]),
}

ZONES: dict[str, list[str]] = {
    "us-central1-a": ["v3", "v5litepod", "v5p"],
    "us-central1-b": ["v2", "v6e"],
    "us-central1-f": ["v2"],
    "us-central2-b": ["v4"],
    "us-east1-d": ["v6e"],
    "us-east5-a": ["v5p", "v6e"],
    "us-east5-b": ["v5litepod", "v6e"],
    "us-west4-a": ["v5litepod"],
    "europe-west4-a": ["v2", "v3", "v6e"],
    "europe-west4-b": ["v5litepod", "v5p"],
    "asia-northeast1-b": ["v6e"],
}

RUNTIMES = [
    "tpu-ubuntu2204-base",
    "tpu-vm-tf-2.17.0-pjrt",
    "v2-alpha-tpuv5-lite",
    "v2-alpha-tpuv5",
    "v2-alpha-tpuv6e",
]

# The enum of AcceleratorConfig.Type: its name and the family it stands for.
CONFIG_TYPES = {2: "v2", 3: "v3", 4: "v3", 7: "v4", 9: "v5litepod", 10: "v5p", 11: "v6e"}


def kinds_in(zone: str) -> list[Kind]:
    """Returns the types that a zone offers."""
    return [kind for kind in KINDS.values() if kind.family in ZONES.get(zone, [])]
