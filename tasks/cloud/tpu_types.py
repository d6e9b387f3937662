"""Cloud TPU's shapes, v2 to v6e: what an accelerator type is made of. Source: Cloud TPU's documentation, 2026.

A type is one slice. v2, v3, v4 and v5p count TensorCores (two a chip), v5e and v6e count chips. A host has
four chips, but for the single-host sizes of v5e and v6e, which have all of their 1, 4 or 8 on one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest


@dataclass(frozen=True)
class Generation:
    """A generation of TPUs. `prefix` is what its types begin with; `devices_per_chip` is as JAX counts them."""

    name: str
    prefix: str
    cores_per_chip: int
    counts_cores: bool
    devices_per_chip: int
    sizes: tuple[int, ...]
    runtime_version: str
    also: tuple[str, ...] = ()
    """Other prefixes that people write for it."""


@dataclass(frozen=True)
class TpuType:
    """One slice: `hosts` workers with `chips_per_host` chips each. `cores` is TensorCores of the whole slice."""

    name: str
    generation: str
    chips: int
    hosts: int
    cores: int
    devices_per_host: int
    runtime_version: str

    @property
    def chips_per_host(self) -> int:
        """Chips that one worker sees."""
        return self.chips // self.hosts

    def __str__(self) -> str:
        return f"{self.name} ({self.chips} chips, {self.hosts} worker{'s' if self.hosts > 1 else ''})"


_BASE = "tpu-ubuntu2204-base"
_COUNTED = (1, 4, 8, 16, 32, 64, 128, 256)

GENERATIONS = (
    Generation("v2", "v2", 2, True, 2, (8, 32, 128, 256, 512), _BASE),
    Generation("v3", "v3", 2, True, 2, (8, 32, 64, 128, 256, 512, 1024, 2048), _BASE),
    Generation("v4", "v4", 2, True, 1, (8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096), _BASE),
    Generation("v5e", "v5litepod", 1, False, 1, _COUNTED, "v2-alpha-tpuv5-lite", ("v5e", "v5lite")),
    Generation(
        "v5p",
        "v5p",
        2,
        True,
        1,
        (8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288),
        "v2-alpha-tpuv5",
        ("v5",),
    ),
    Generation("v6e", "v6e", 1, False, 1, _COUNTED, "v2-alpha-tpuv6e", ("v6", "trillium")),
)  # fmt: skip

_CHIPS_PER_HOST = 4
_MOST_ON_ONE_HOST = 8
_WRITTEN = re.compile(r"([a-z0-9]*[a-z]|v\d)-(\d+)")


def tpu_type(name: str) -> TpuType:
    """Returns what a type is made of. Raises BadInput, with the nearest names, for one that is none of Cloud TPU's."""
    known = known_types()
    if name in known:
        return known[name]
    raise BadInput(f"{name!r} is no type of Cloud TPU", fix=_meant(name.lower(), known))


def known_types() -> dict[str, TpuType]:
    """Returns every type by name, small ones first within each generation."""
    return {shape.name: shape for generation in GENERATIONS for shape in _shapes(generation)}


def _shapes(generation: Generation) -> list[TpuType]:
    shapes = []
    for size in generation.sizes:
        chips = size // generation.cores_per_chip if generation.counts_cores else size
        single = not generation.counts_cores and chips <= _MOST_ON_ONE_HOST
        hosts = 1 if single else max(1, chips // _CHIPS_PER_HOST)
        shapes.append(
            TpuType(
                name=f"{generation.prefix}-{size}",
                generation=generation.name,
                chips=chips,
                hosts=hosts,
                cores=chips * generation.cores_per_chip,
                devices_per_host=chips // hosts * generation.devices_per_chip,
                runtime_version=generation.runtime_version,
            )
        )
    return shapes


def _meant(name: str, known: dict[str, TpuType]) -> str:
    """Says which types were probably meant: the right prefix, then the sizes around the one written."""
    match = _WRITTEN.fullmatch(name)
    if match:
        prefix, size = match[1], int(match[2])
        for generation in GENERATIONS:
            if prefix == generation.prefix or prefix in generation.also:
                near = sorted(generation.sizes, key=lambda one: abs(one - size))[:3]
                unit = "TensorCores, two a chip" if generation.counts_cores else "chips"
                names = ", ".join(f"{generation.prefix}-{one}" for one in sorted(near))
                return f"did you mean one of {names}? ({generation.name} counts {unit})"
    near_name = nearest(name, list(known))
    generations = ", ".join(f"{generation.prefix}-N" for generation in GENERATIONS)
    return f"did you mean {near_name!r}?" if near_name else f"types are {generations}"
