"""Expands a suite into points, in Orbax's order, each with a label that says what varies.

Order: benchmarks as written; for each, all combinations of its options in field order, last fastest; for each
combination the meshes; for each mesh the checkpoints.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contract.generators import find
from runtime.contract.keys import benchmark_key
from runtime.contract.suite import BenchmarkSpec, CheckpointSpec, MeshSpec, Point, Suite

REFERENCE = "runtime.benchmarks.reference.Reference"
"""The class whose points make checkpoints that other points of the suite read."""


@dataclass(frozen=True)
class Dropped:
    """A combination of options that makes no sense, and why; Orbax drops such combinations too."""

    generator: str
    options: Mapping[str, Any]
    why: str


def expand(suite: Suite) -> list[Point]:
    """Returns the points of a suite, in the order in which they run: all, or those that it says are measured only.

    What makes checkpoints for others of the suite stays: they read them.
    """
    points = expand_all(suite)
    if not suite.only:
        return points
    chosen = [one for one in points if one.generator == REFERENCE or not names_of(one).isdisjoint(suite.only)]
    return [dataclasses.replace(one, index=index) for index, one in enumerate(chosen)]


def expand_all(suite: Suite) -> list[Point]:
    """Returns all points that a suite describes."""
    found = list(drafts(suite))
    labels = _labels(suite, found)
    return [
        Point(
            index=index,
            benchmark=label,
            key=benchmark_key(draft.item, draft.options, draft.mesh, draft.checkpoint, suite.page_cache),
            generator=draft.item.generator,
            implementation=draft.item.implementation,
            options=draft.options,
            mesh=draft.mesh,
            checkpoint=draft.checkpoint,
            deadline_s=draft.item.deadline_s or suite.deadline_s,
            disruption=draft.item.disruption,
            page_cache=suite.page_cache,
        )
        for index, (draft, label) in enumerate(zip(found, labels, strict=True))
    ]


def dropped(suite: Suite) -> list[Dropped]:
    """Returns the combinations of options that were left out."""
    return [
        Dropped(item.generator, options, why)
        for item in suite.benchmarks
        for options, why in judged(item)
        if why is not None
    ]


def names_of(point: Point) -> set[str]:
    """Returns all by which a point of the whole suite may be named."""
    return {point.benchmark, point.key, str(point.index + 1)}


@dataclass(frozen=True)
class Draft:
    """A point before it has a label; `item_index` and the two numbers say which benchmark, mesh and checkpoint."""

    item: BenchmarkSpec
    item_index: int
    options: Mapping[str, Any]
    mesh: MeshSpec | None
    mesh_index: int
    checkpoint: CheckpointSpec
    checkpoint_index: int


def judged(item: BenchmarkSpec) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yields every combination of options, with the reason why it is not valid, or None."""
    generator = find(item.generator)
    for values in itertools.product(*item.options.values()):
        options = dict(zip(item.options, values, strict=True))
        yield options, generator.why_invalid(options) if generator else None


def drafts(suite: Suite) -> Iterator[Draft]:
    """Yields all points that a suite describes, in order, without labels."""
    meshes: Sequence[MeshSpec | None] = suite.meshes or (None,)
    for item_index, item in enumerate(suite.benchmarks):
        valid = [options for options, why in judged(item) if why is None]
        checkpoints: Sequence[CheckpointSpec] = suite.checkpoints
        if _needs_none(item):
            checkpoints = (CheckpointSpec(),)
        places = itertools.product(valid, enumerate(meshes), enumerate(checkpoints))
        for options, (mesh_index, mesh), (checkpoint_index, checkpoint) in places:
            yield Draft(item, item_index, options, mesh, mesh_index, checkpoint, checkpoint_index)


def _needs_none(item: BenchmarkSpec) -> bool:
    """Whether ours does nothing with a checkpoint of the suite: it is made for others then."""
    generator = find(item.generator)
    if generator is None or item.implementation != "native":
        return False
    return generator.data in ("unused", "forbidden")


def class_name(item: BenchmarkSpec) -> str:
    """Returns the class's name, with its module where the name alone says nothing (v1.benchmark.Benchmark)."""
    module, _, name = item.generator.rpartition(".")
    return "v1.Benchmark" if name == "Benchmark" and module.endswith(".v1.benchmark") else name


def _labels(suite: Suite, found: Sequence[Draft]) -> list[str]:
    """Returns labels made of what varies; where two benchmarks of a suite would share one, their number is added."""
    labels = [_label(suite, draft) for draft in found]
    shared = {label for label, count in Counter(labels).items() if count > 1}
    ambiguous = {draft.item_index for draft, label in zip(found, labels, strict=True) if label in shared}
    return [
        label if draft.item_index not in ambiguous else _label(suite, draft, f"benchmark={draft.item_index}")
        for draft, label in zip(found, labels, strict=True)
    ]


def _label(suite: Suite, draft: Draft, *more: str) -> str:
    parts = [
        f"{name}={_short(draft.options[name], values)}"
        for name, values in draft.item.options.items()
        if len(values) > 1
    ]
    if len(suite.meshes) > 1:
        parts.append(f"mesh={draft.mesh_index}")
    if len(suite.checkpoints) > 1:
        parts.append(f"checkpoint={draft.checkpoint_index}")
    if draft.item.disruption is not None:
        parts.append("disrupted")
    parts.extend(more)
    return f"{class_name(draft.item)}[{','.join(parts)}]" if parts else class_name(draft.item)


def _short(value: Any, values: Sequence[Any]) -> str:
    written = str(value)
    return (
        written if len(written) <= 24 and not isinstance(value, (dict, list)) else f"#{values.index(value)}"
    )
