"""Short names for points: what makes each one different from the others of its suite. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.history.results import PointOutcome


def labels(points: Sequence[PointOutcome]) -> dict[int, str]:
    """Returns point → label, all different: `use_ocdbt=false, mesh …`, or the benchmark's name."""
    several = len({point.generator for point in points}) > 1
    told = {
        point.point: _label(point, [p for p in points if p.generator == point.generator], several)
        for point in points
    }
    taken: dict[str, int] = {}
    for number, label in told.items():
        taken[label] = taken.get(label, 0) + 1
        if taken[label] > 1:
            told[number] = f"{label} ({taken[label]})"
    return told


def short_generator(generator: str) -> str:
    """Returns the class of a dotted path without what every benchmark is called: PyTreeCheckpoint."""
    name = generator.rpartition(".")[2]
    if name == "Benchmark":  # Orbax names its classes of the v1 API by their module.
        name = generator.split(".")[-2]
    return name.removesuffix("Benchmark") or name


def plain(value: Any) -> str:
    """Returns an option's value as YAML writes it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def mesh_label(mesh: Mapping[str, Any]) -> str:
    """Returns a mesh by the sizes of its axes: data 2 × model 1, those across slices after a plus."""
    axes = mesh.get("mesh_axes", ())

    def told(sizes: Mapping[str, int]) -> str:
        return " × ".join(f"{axis} {sizes.get(axis, 1)}" for axis in axes)

    across = mesh.get("dcn_parallelism")
    return told(mesh.get("ici_parallelism") or {}) + (f" + {told(across)} across slices" if across else "")


def _disruption_label(disruption: Mapping[str, Any] | None) -> str:
    if not disruption:
        return "undisturbed"
    step, seconds = disruption.get("at_step"), disruption.get("after_s")
    when = f"after {seconds:g} s" if isinstance(seconds, int | float) else f"at step {step}"
    return f"killed {when}"


def _label(point: PointOutcome, kin: Sequence[PointOutcome], several: bool) -> str:
    """Returns what tells a point from its kin: nothing that follows from what was said before it."""
    # Short names first: they read best, and long ones may then follow from them.
    options = sorted({name for one in kin for name in one.options}, key=lambda name: (len(name), name))
    checkpoints = list(dict.fromkeys(plain(one.checkpoint) for one in kin))
    alike = [_traits(one, options, checkpoints, kin) for one in kin]
    parts: list[str] = []
    for place, (identity, words) in enumerate(_traits(point, options, checkpoints, kin)):
        same = [traits for traits in alike if traits[place][0] == identity]
        if len(same) < len(alike):
            parts.append(words)
            alike = same
    if several or not parts:
        parts.insert(0, short_generator(point.generator) if point.generator else point.benchmark)
    return ", ".join(parts)


def _option_label(name: str, value: Any, kin: Sequence[PointOutcome]) -> str:
    """Returns an option in words; one that holds options itself by its place among those of its kin."""
    if not isinstance(value, Mapping | list):
        return f"{name}={plain(value)}"
    every = list(dict.fromkeys(plain(one.options.get(name)) for one in kin))
    return f"{name} {every.index(plain(value)) + 1}"


def _traits(
    point: PointOutcome, options: Sequence[str], checkpoints: Sequence[str], kin: Sequence[PointOutcome]
) -> list[tuple[str, str]]:
    """Returns everything by which points may differ, each as its identity and in words."""
    values = [(name, plain(point.options.get(name)), point.options.get(name)) for name in options]
    checkpoint = plain(point.checkpoint)
    return [
        *((text, _option_label(name, value, kin)) for name, text, value in values),
        (plain(point.mesh), mesh_label(point.mesh) if point.mesh else "no mesh"),
        (checkpoint, f"checkpoint {checkpoints.index(checkpoint) + 1}"),
        (plain(point.disruption), _disruption_label(point.disruption)),
    ]
