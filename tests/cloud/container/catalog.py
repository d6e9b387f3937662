"""What the stand-in offers: zones with machine types, TPU and GPU machines, versions of GKE. Its own table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine type. `chips` is TPU chips of one machine, `gpu` the accelerator it has `gpus` of."""

    name: str
    cpus: int
    family: str = ""
    chips: int = 0
    gpu: str = ""
    gpus: int = 0

    @property
    def memory_gb(self) -> int:
        """GB of memory."""
        return _MEMORY.get(self.name, self.cpus * 4)


_MEMORY = {
    "m1-megamem-96": 1433, "ct4p-hightpu-4t": 407, "ct5lp-hightpu-1t": 48, "ct5lp-hightpu-4t": 192,
    "ct5lp-hightpu-8t": 384, "ct5p-hightpu-4t": 448, "ct6e-standard-8t": 1440, "tpu7x-standard-4t": 960,
    "a2-highgpu-1g": 85, "a2-highgpu-2g": 170, "a2-highgpu-4g": 340, "a2-highgpu-8g": 680, "a3-highgpu-8g": 1872,
    "a3-megagpu-8g": 1872, "a3-ultragpu-8g": 2952, "a4-highgpu-8g": 3968,
}  # fmt: skip
"""GB of those that have not four for each processor."""


def _cpu(prefix: str, sizes: list[int]) -> list[Machine]:
    return [Machine(f"{prefix}-{size}", size) for size in sizes]


_ALL = [
    *_cpu("e2-standard", [2, 4, 8, 16, 32]),
    *_cpu("n1-standard", [4, 8, 16, 32]),
    *_cpu("n2-standard", [4, 8, 16, 32, 64]),
    Machine("m1-megamem-96", 96),
    Machine("ct4p-hightpu-4t", 240, "CT4P", 4),
    Machine("ct5lp-hightpu-1t", 24, "CT5LP", 1),
    Machine("ct5lp-hightpu-4t", 112, "CT5LP", 4),
    Machine("ct5lp-hightpu-8t", 224, "CT5LP", 8),
    Machine("ct5p-hightpu-4t", 208, "CT5P", 4),
    Machine("ct6e-standard-1t", 44, "CT6E", 1),
    Machine("ct6e-standard-4t", 180, "CT6E", 4),
    Machine("ct6e-standard-8t", 180, "CT6E", 8),
    Machine("tpu7x-standard-1t", 56, "TPU7X", 1),
    Machine("tpu7x-standard-4t", 224, "TPU7X", 4),
    Machine("g2-standard-12", 12, gpu="nvidia-l4", gpus=1),
    Machine("g2-standard-24", 24, gpu="nvidia-l4", gpus=2),
    Machine("g2-standard-48", 48, gpu="nvidia-l4", gpus=4),
    Machine("g2-standard-96", 96, gpu="nvidia-l4", gpus=8),
    Machine("a2-highgpu-1g", 12, gpu="nvidia-tesla-a100", gpus=1),
    Machine("a2-highgpu-2g", 24, gpu="nvidia-tesla-a100", gpus=2),
    Machine("a2-highgpu-4g", 48, gpu="nvidia-tesla-a100", gpus=4),
    Machine("a2-highgpu-8g", 96, gpu="nvidia-tesla-a100", gpus=8),
    Machine("a3-highgpu-8g", 208, gpu="nvidia-h100-80gb", gpus=8),
    Machine("a3-megagpu-8g", 208, gpu="nvidia-h100-mega-80gb", gpus=8),
    Machine("a3-ultragpu-8g", 224, gpu="nvidia-h200-141gb", gpus=8),
    Machine("a4-highgpu-8g", 224, gpu="nvidia-b200", gpus=8),
]
MACHINES = {machine.name: machine for machine in _ALL}

_EVERYWHERE = ["e2-standard", "n1-standard", "n2-standard"]
# Zone → what the names of its machine types begin with.
ZONES: dict[str, list[str]] = {
    "us-central1-a": [*_EVERYWHERE, "m1-megamem", "ct5lp", "ct5p", "a2", "g2", "a3", "a4"],
    "us-central1-b": [*_EVERYWHERE, "ct6e", "g2"],
    "us-central1-f": [*_EVERYWHERE],
    "us-central2-b": ["n1-standard", "n2-standard", "ct4p"],
    "us-east1-d": [*_EVERYWHERE, "ct6e"],
    "us-east5-a": [*_EVERYWHERE, "ct5p", "ct6e", "tpu7x"],
    "us-east5-b": [*_EVERYWHERE, "ct5lp", "ct6e"],
    "us-west4-a": [*_EVERYWHERE, "ct5lp"],
    "europe-west4-a": [*_EVERYWHERE, "ct6e", "a2", "g2"],
    "europe-west4-b": [*_EVERYWHERE, "ct5lp", "ct5p"],
}
REGIONS = sorted({zone.rsplit("-", 1)[0] for zone in ZONES})

# Channel (its number in the API) → versions, newest first, the default second.
CHANNELS: dict[int, list[str]] = {
    1: ["1.34.1-gke.2037000", "1.33.5-gke.1201000"],
    2: ["1.33.5-gke.1201000", "1.32.9-gke.1130000"],
    3: ["1.32.9-gke.1130000", "1.31.13-gke.1008000"],
}
VERSIONS = sorted({one for versions in CHANNELS.values() for one in versions}, reverse=True)


def machines_in(zone: str) -> list[str]:
    """Returns the names of the machine types that a zone has."""
    return [name for name in MACHINES if name.startswith(tuple(ZONES.get(zone, ["?"])))]


def zones_of(location: str) -> list[str]:
    """Returns the zones of a region, or the zone itself."""
    return [zone for zone in ZONES if location in (zone, zone.rsplit("-", 1)[0])]


def hosts_of(machine: Machine, topology: str) -> int:
    """Returns how many machines a topology takes."""
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    return max(1, chips // machine.chips)
