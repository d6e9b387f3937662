"""Refuses suites that would measure nothing, the same thing twice, or more than anybody would wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.contract.errors import Place
from runtime.contract.expand import class_name, drafts, expand_all, judged, names_of
from runtime.contract.findings import Findings
from runtime.contract.generator import Generator
from runtime.contract.generators import find
from runtime.contract.keys import benchmark_key, canonical_mesh, plain
from runtime.contract.nearest import nearest
from runtime.contract.suite import BenchmarkSpec, Suite

MAX_POINTS = 10_000
_LISTED = 5


def check_points(suite: Suite, found: Findings) -> None:
    """Refuses a suite that would measure nothing, the same thing twice, or more than anybody would wait for."""
    for item in suite.benchmarks:
        _check_item(suite, item, found)
    _refuse_twins([canonical_mesh(mesh) for mesh in suite.meshes], suite.mesh_places, "mesh", found)
    _refuse_twins([plain(item) for item in suite.checkpoints], suite.checkpoint_places, "checkpoint", found)
    if found.failed:
        return
    places: dict[str, Place] = {}
    for draft in drafts(suite):
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
    known = {name for one in points for name in names_of(one)}
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
    reasons = [why for _, why in judged(item)]
    if reasons and None not in reasons:
        why = "; ".join(sorted({reason for reason in reasons if reason}))
        what = f"no combination of options of {class_name(item)} is valid"
        found.error(item.place, what, why, "correct the options: nothing would run")
    if generator is not None:
        _check_data(suite, item, generator, found)


def _check_data(suite: Suite, item: BenchmarkSpec, generator: Generator, found: Findings) -> None:
    name = class_name(item)
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
