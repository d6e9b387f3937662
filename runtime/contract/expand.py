"""Expands a suite into points, in Orbax's order, each with a key that is stable over versions and machines.

Order: benchmarks as written; for each, all combinations of its options in field order, last fastest; for each
combination the meshes; for each mesh the checkpoints.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contract.disruption import Disruption
from runtime.contract.errors import Place
from runtime.contract.findings import Findings
from runtime.contract.generator import Generator
from runtime.contract.generators import find
from runtime.contract.nearest import nearest
from runtime.contract.options import REQUIRED
from runtime.contract.suite import BenchmarkSpec, CheckpointSpec, MeshSpec, PageCache, Point, Suite

MAX_POINTS = 10_000
_LISTED = 5

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
    chosen = [one for one in points if one.generator == REFERENCE or not _names(one).isdisjoint(suite.only)]
    return [dataclasses.replace(one, index=index) for index, one in enumerate(chosen)]


def expand_all(suite: Suite) -> list[Point]:
    """Returns all points that a suite describes."""
    drafts = list(_drafts(suite))
    labels = _labels(suite, drafts)
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
        for index, (draft, label) in enumerate(zip(drafts, labels, strict=True))
    ]


def dropped(suite: Suite) -> list[Dropped]:
    """Returns the combinations of options that were left out."""
    return [
        Dropped(item.generator, options, why)
        for item in suite.benchmarks
        for options, why in _judged(item)
        if why is not None
    ]


def benchmark_key(
    item: BenchmarkSpec,
    options: Mapping[str, Any],
    mesh: MeshSpec | None,
    checkpoint: CheckpointSpec,
    page_cache: PageCache = "",
) -> str:
    """Returns 16 hex digits of the SHA-256 of everything that decides what is measured, as canonical JSON.

    Options that have their default are left out, so that a new option does not change old keys; likewise
    axes of size 1. Repeats, deadlines and labels do not count: they do not change what one sample means.
    """
    generator = find(item.generator)
    defaults = {option.name: option.default for option in generator.options} if generator else {}
    identity = {
        "generator": item.generator,
        "implementation": item.implementation,
        "definition": generator.definition if generator and item.implementation == "native" else 1,
        "options": {name: value for name, value in options.items() if value != defaults.get(name, REQUIRED)},
        "mesh": None if mesh is None else _canonical_mesh(mesh),
        "checkpoint": _without_defaults(checkpoint),
    }
    if item.disruption is not None:  # no key of its own where there is none: it would change all old keys
        identity["disruption"] = _without_defaults(item.disruption)
    if page_cache:
        identity["page_cache"] = page_cache
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """Returns a spec as JSON can hold it: mappings, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def check_points(suite: Suite, found: Findings) -> None:
    """Refuses a suite that would measure nothing, the same thing twice, or more than anybody would wait for."""
    for item in suite.benchmarks:
        _check_item(suite, item, found)
    _refuse_twins([_canonical_mesh(mesh) for mesh in suite.meshes], suite.mesh_places, "mesh", found)
    _refuse_twins([plain(item) for item in suite.checkpoints], suite.checkpoint_places, "checkpoint", found)
    if found.failed:
        return
    places: dict[str, Place] = {}
    for draft in _drafts(suite):
        key = benchmark_key(draft.item, draft.options, draft.mesh, draft.checkpoint)
        first = places.setdefault(key, draft.item.place)
        if first != draft.item.place:
            what = f"this measures what the benchmark on line {first.line} measures already"
            found.error(draft.item.place, what, "samples of both would be mixed", "remove one of the two")
            return
        if len(places) > MAX_POINTS:
            what = f"the suite expands to more than {MAX_POINTS} benchmarks"
            found.error(draft.item.place, what, fix="list fewer values")
            return
    _check_only(suite, found)


def _check_only(suite: Suite, found: Findings) -> None:
    """Refuses names of benchmarks that the suite has not."""
    points = expand_all(suite) if suite.only else ()
    known = {name for one in points for name in _names(one)}
    for name, place in zip(suite.only, suite.only_places, strict=True):
        if name not in known:
            labels = [one.benchmark for one in points]
            near = nearest(name, labels)
            some = ", ".join(labels[:_LISTED]) + " …" * (len(labels) > _LISTED)
            fix = (
                f"did you mean {near!r}?"
                if near
                else f"write a number from 1 to {len(labels)}, or a name: {some}"
            )
            found.error(place, f"the suite has no benchmark {name!r}", fix=fix)


def _names(point: Point) -> set[str]:
    """Returns all by which a point of the whole suite may be named."""
    return {point.benchmark, point.key, str(point.index + 1)}


def _refuse_twins(values: Sequence[Any], places: Sequence[Place], kind: str, found: Findings) -> None:
    for index, place in enumerate(places):
        if values[index] in values[:index]:
            first = places[values.index(values[index])].line
            why = "the same benchmark would run twice"
            found.error(place, f"this {kind} is the one of line {first} again", why, "remove one of the two")


def _check_item(suite: Suite, item: BenchmarkSpec, found: Findings) -> None:
    generator = find(item.generator)
    combinations = 1
    for values in item.options.values():
        combinations *= len(values)
    if combinations > MAX_POINTS:
        found.error(item.place, f"{combinations} combinations of options", fix=f"stay below {MAX_POINTS}")
        return
    reasons = [why for _, why in _judged(item)]
    if reasons and None not in reasons:
        why = "; ".join(sorted({reason for reason in reasons if reason}))
        what = f"no combination of options of {_class_name(item)} is valid"
        found.error(item.place, what, why, "correct the options: nothing would run")
    if generator is not None:
        _check_data(suite, item, generator, found)


def _check_data(suite: Suite, item: BenchmarkSpec, generator: Generator, found: Findings) -> None:
    name = _class_name(item)
    for index, checkpoint in enumerate(suite.checkpoints):
        given = bool(checkpoint.spec) or checkpoint.path is not None
        place = suite.checkpoint_places[index] if index < len(suite.checkpoint_places) else item.place
        if generator.data == "needed" and not given:
            found.error(
                place, f"{name} has nothing to save", fix="give checkpoint_config with spec: or path:"
            )
        if generator.data == "forbidden" and given and not _for_others(suite):
            why = "it reads the one its options name"
            found.error(place, f"{name} takes no checkpoint of the suite", why, "remove checkpoint_config")
        for key in generator.tree_keys if checkpoint.spec is not None else ():
            if key not in (checkpoint.spec or {}):
                found.error(
                    place, f"{name} saves the array {key!r}, which spec lacks", fix=f"add {key!r} to spec"
                )


def _for_others(suite: Suite) -> bool:
    """Whether a benchmark of the suite needs its checkpoint."""
    known = [find(item.generator) for item in suite.benchmarks]
    return any(each is None or each.data in ("needed", "any") for each in known)


@dataclass(frozen=True)
class _Draft:
    """A point before it has a label; `item_index` and the two numbers say which benchmark, mesh and checkpoint."""

    item: BenchmarkSpec
    item_index: int
    options: Mapping[str, Any]
    mesh: MeshSpec | None
    mesh_index: int
    checkpoint: CheckpointSpec
    checkpoint_index: int


def _judged(item: BenchmarkSpec) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Every combination of options, with the reason why it is not valid or None."""
    generator = find(item.generator)
    for values in itertools.product(*item.options.values()):
        options = dict(zip(item.options, values, strict=True))
        yield options, generator.why_invalid(options) if generator else None


def _drafts(suite: Suite) -> Iterator[_Draft]:
    meshes: Sequence[MeshSpec | None] = suite.meshes or (None,)
    for item_index, item in enumerate(suite.benchmarks):
        valid = [options for options, why in _judged(item) if why is None]
        checkpoints: Sequence[CheckpointSpec] = suite.checkpoints
        if _needs_none(item):
            checkpoints = (CheckpointSpec(),)
        places = itertools.product(valid, enumerate(meshes), enumerate(checkpoints))
        for options, (mesh_index, mesh), (checkpoint_index, checkpoint) in places:
            yield _Draft(item, item_index, options, mesh, mesh_index, checkpoint, checkpoint_index)


def _needs_none(item: BenchmarkSpec) -> bool:
    """Whether ours does nothing with a checkpoint of the suite: it is made for others then."""
    generator = find(item.generator)
    native = generator is not None and item.implementation == "native"
    return native and generator is not None and generator.data in ("unused", "forbidden")


def _class_name(item: BenchmarkSpec) -> str:
    """The class's name, with its module where the name alone says nothing (v1.benchmark.Benchmark)."""
    module, _, name = item.generator.rpartition(".")
    return "v1.Benchmark" if name == "Benchmark" and module.endswith(".v1.benchmark") else name


def _labels(suite: Suite, drafts: Sequence[_Draft]) -> list[str]:
    """Labels made of what varies; where two benchmarks of a suite would share one, their number is added."""
    labels = [_label(suite, draft) for draft in drafts]
    shared = {label for label, count in Counter(labels).items() if count > 1}
    ambiguous = {draft.item_index for draft, label in zip(drafts, labels, strict=True) if label in shared}
    return [
        label if draft.item_index not in ambiguous else _label(suite, draft, f"benchmark={draft.item_index}")
        for draft, label in zip(drafts, labels, strict=True)
    ]


def _label(suite: Suite, draft: _Draft, *more: str) -> str:
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
    return f"{_class_name(draft.item)}[{','.join(parts)}]" if parts else _class_name(draft.item)


def _short(value: Any, values: Sequence[Any]) -> str:
    written = str(value)
    return (
        written if len(written) <= 24 and not isinstance(value, (dict, list)) else f"#{values.index(value)}"
    )


def _canonical_mesh(mesh: MeshSpec) -> dict[str, Any]:
    dcn = mesh.dcn_parallelism
    fields = _without_defaults(mesh)
    fields["ici_parallelism"] = {axis: size for axis, size in mesh.ici_parallelism.items() if size > 1}
    if dcn is not None:
        fields["dcn_parallelism"] = {axis: size for axis, size in dcn.items() if size > 1}
    return fields


def _without_defaults(spec: MeshSpec | CheckpointSpec | Disruption) -> dict[str, Any]:
    return {
        field.name: plain(getattr(spec, field.name))
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) != field.default
    }
