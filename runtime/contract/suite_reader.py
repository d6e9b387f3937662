"""Reads a suite from YAML: takes what Orbax takes, refuses, all at once, what Orbax would ignore in silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.findings import Findings, told
from runtime.contract.generator import NATIVE_PREFIX, ORBAX_PREFIX, Generator
from runtime.contract.generators import find, known_names
from runtime.contract.nearest import nearest
from runtime.contract.points_check import check_points
from runtime.contract.suite import BenchmarkSpec, CheckpointSpec, Implementation, MeshSpec, PageCache, Suite
from runtime.contract.suite_data import check_shardings, read_checkpoint, read_mesh, read_simdevice
from runtime.contract.suite_disruption import check_disruptions, read_disruption
from runtime.contract.suite_options import read_options
from runtime.contract.suite_repeats import read_repeats
from runtime.contract.yamlfile import Entry, Node, load

SUITE_KEYS = (
    "suite_name",
    "num_repeats",
    "repeats",
    "warmup",
    "deadline_s",
    "interleave",
    "only",
    "limits",
    "page_cache",
    "mesh_config",
    "mesh_configs",
    "checkpoint_config",
    "checkpoint_configs",
    "baseline_path",
    "baseline_capture_path",
    "simdevice",
    "benchmarks",
)
ITEM_KEYS = ("generator", "options", "implementation", "deadline_s", "disruption")

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_IGNORED = "Orbax would ignore it in silence"
T = TypeVar("T")


def read_suite(text: str, file: str) -> Suite:
    """Returns the suite, with `warnings`. Raises BadInput with every problem found; `file` is only named in them."""
    suite, problems = inspect_suite(text, file)
    if suite is None:
        raise BadInput(problems)
    return suite


def check_text(text: str, file: str) -> list[Problem]:
    """Returns all that is wrong or doubtful in a suite, in the order of the file."""
    return inspect_suite(text, file)[1]


def inspect_suite(text: str, file: str) -> tuple[Suite | None, list[Problem]]:
    """Returns the suite, or None when it has errors, and all problems in the order of the file."""
    loaded = load(text, file)
    found = Findings(loaded.problems)
    suite = None if loaded.root is None else _suite(loaded.root, file, found)
    if suite is not None and not found.failed:
        check_points(suite, found)
        check_disruptions(suite, found)
    problems = sorted(dict.fromkeys(found.problems), key=_position)
    if suite is None or found.failed:
        return None, problems
    return _with_warnings(suite, tuple(problems)), problems


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place else (0, 0)


def _with_warnings(suite: Suite, warnings: tuple[Problem, ...]) -> Suite:
    return Suite(**{**vars(suite), "warnings": warnings})


def _suite(root: Node, file: str, found: Findings) -> Suite | None:
    entries = found.mapping(root, "a suite", "write suite_name: … and benchmarks: …")
    if entries is None:
        return None
    found.known_keys(entries, SUITE_KEYS, "a suite", _IGNORED)
    for key in ("suite_name", "benchmarks"):
        if key not in entries:
            found.error(root.place, f"the suite has no {key}", fix=f"add {key}: …")
    meshes = _one_or_many("mesh", entries, read_mesh, found)
    checkpoints = _one_or_many("checkpoint", entries, read_checkpoint, found)
    _check_all_shardings(checkpoints, meshes, any(key.startswith("mesh_config") for key in entries), found)
    benchmarks = _benchmarks(entries["benchmarks"].node, found) if "benchmarks" in entries else ()
    simdevice = read_simdevice(entries["simdevice"].node, found) if "simdevice" in entries else None
    if "simdevice" in entries:
        what = "simdevice is checked but not used"
        why = "benchmarks run on the devices of the target"
        found.warning(entries["simdevice"].place, what, why, "choose a target with as many devices")
        _refuse_digests(entries["benchmarks"].node if "benchmarks" in entries else root, found)

    def read(key: str, reader: Callable[..., Any], default: Any, *bounds: int) -> Any:
        return reader(entries[key].node, key, *bounds) if key in entries else default

    for key in ("baseline_path", "baseline_capture_path"):
        if key in entries and found.optional(entries[key].node, key, found.text) is not None:
            why = "a run is compared with all earlier ones in its output"
            found.warning(entries[key].place, f"{key} is checked but not used", why, "leave it out")

    only = _only(entries.get("only"), found)
    num_repeats = read("num_repeats", found.integer, 1, 1) or 1
    adaptive = read_repeats(entries, num_repeats, found)
    return Suite(
        file=file,
        name=read("suite_name", found.text, "") or "",
        benchmarks=benchmarks,
        meshes=tuple(mesh for mesh, _ in meshes),
        checkpoints=tuple(checkpoint for checkpoint, _ in checkpoints) or (CheckpointSpec(),),
        num_repeats=num_repeats if adaptive is None else adaptive.most,
        adaptive=adaptive,
        warmup=read("warmup", found.integer, 0, 0) or 0,
        deadline_s=read("deadline_s", found.seconds, None),
        simdevice=simdevice,
        page_cache=_page_cache(entries.get("page_cache"), found),
        interleave=read("interleave", found.boolean, False) or False,
        only=tuple(name for name, _ in only),
        only_places=tuple(place for _, place in only),
        limits=read("limits", found.boolean, True) is not False,
        mesh_places=tuple(node.place for _, node in meshes),
        checkpoint_places=tuple(node.place for _, node in checkpoints),
    )


def _only(entry: Entry | None, found: Findings) -> list[tuple[str, Place]]:
    """Returns the names of benchmarks, each with its place; none for all."""
    items = () if entry is None else found.sequence(entry.node, "only", "write [NAME, …]") or ()
    if entry is not None and entry.node.value == []:
        found.error(entry.node.place, "only names no benchmark", "nothing would run", "leave it out for all")
    named = (
        (str(item.value) if type(item.value) is int else found.text(item, "a benchmark"), item)
        for item in items
    )
    return [(name, item.place) for name, item in named if name is not None]


def _page_cache(entry: Entry | None, found: Findings) -> PageCache:
    value = None if entry is None else entry.node.value
    if value == "cold":
        return "cold"
    if value == "drop":
        return "drop"
    if entry is not None:
        what = f"page_cache must be cold or drop, not {told(value)}"
        found.error(entry.node.place, what, fix="write cold, or leave it out to read what is in memory")
    return ""


def _one_or_many(
    kind: str, entries: Mapping[str, Entry], read: Callable[[Node, str, Findings], T | None], found: Findings
) -> list[tuple[T, Node]]:
    """Reads `<kind>_config` or the list `<kind>_configs`."""
    one, many = entries.get(f"{kind}_config"), entries.get(f"{kind}_configs")
    if one and many:
        what = f"{one.key} and {many.key} are both given"
        found.error(one.place, what, f"Orbax would use {many.key} and ignore the other", "keep one of them")
    nodes = [one.node] if one else []
    if many:
        items = found.sequence(many.node, many.key, f"write a list, or {kind}_config for a single one")
        if items == ():
            found.error(
                many.node.place, f"{many.key} is empty", "it makes zero benchmarks", "add one, or remove it"
            )
        nodes += items or ()
    read_all = [(read(node, f"a {kind}", found), node) for node in nodes]
    return [(value, node) for value, node in read_all if value is not None]


def _check_all_shardings(
    checkpoints: list[tuple[CheckpointSpec, Node]],
    meshes: list[tuple[MeshSpec, Node]],
    has_mesh: bool,
    found: Findings,
) -> None:
    for checkpoint, node in checkpoints:
        spec = node.child("spec")
        if checkpoint.spec is not None and spec is not None:
            places = [(mesh, mesh_node.place) for mesh, mesh_node in meshes]
            check_shardings(checkpoint.spec, spec, places, has_mesh, found)


def _benchmarks(node: Node, found: Findings) -> tuple[BenchmarkSpec, ...]:
    items = found.sequence(node, "benchmarks", "write a list of '- generator: …' items")
    if items == ():
        found.error(
            node.place, "benchmarks is empty", "nothing would run", "add '- generator: …' with options: {}"
        )
    read = (_benchmark(item, found) for item in items or ())
    return tuple(benchmark for benchmark in read if benchmark is not None)


def _benchmark(node: Node, found: Findings) -> BenchmarkSpec | None:
    entries = found.mapping(node, "a benchmark", "write generator: … and options: …")
    if entries is None:
        return None
    name = _generator_name(node, found)
    generator = find(name) if name else None
    for entry in entries.values():
        if generator and entry.key in {option.name for option in generator.options}:
            found.error(entry.place, f"{entry.key!r} is an option", _IGNORED, "move it under options:")
    options_known = [option.name for option in generator.options] if generator else []
    misplaced = {key: entry for key, entry in entries.items() if key not in options_known}
    found.known_keys(misplaced, ITEM_KEYS, "a benchmark", _IGNORED)
    options_node = node.child("options")
    if options_node is None:
        found.error(node.place, "the benchmark has no options", fix="write options: {} to take every default")
    if options_node is None or name is None:
        return None
    deadline, disruption = entries.get("deadline_s"), entries.get("disruption")
    return BenchmarkSpec(
        generator=generator.name if generator else name,
        implementation=_implementation(entries.get("implementation"), generator, found),
        options=read_options(options_node, generator, name, found),
        deadline_s=found.seconds(deadline.node, "deadline_s") if deadline else None,
        place=node.place,
        disruption=read_disruption(disruption.node, found) if disruption else None,
        disruption_place=disruption.place if disruption else None,
    )


def _generator_name(node: Node, found: Findings) -> str | None:
    child = node.child("generator")
    if child is None:
        found.error(node.place, "the benchmark has no generator", fix="write generator: package.module.Class")
        return None
    name = found.text(child, "generator")
    if name is None or find(name):
        return name
    if not _DOTTED.fullmatch(name):
        what = f"generator {told(name)} is not the dotted path of a class"
        near = [known for known in known_names() if known.endswith(f".{name}")]
        found.error(child.place, what, fix=f"write {near[0] if near else 'package.module.Class'}")
        return None
    close = nearest(name, known_names())
    if name.startswith(NATIVE_PREFIX):
        fix = f"did you mean {close}?" if close else "see the list of native benchmarks"
        found.error(child.place, f"there is no native benchmark {name}", fix=fix)
        return None
    if name.startswith(ORBAX_PREFIX):
        what = f"Orbax 0.12.8 has no benchmark {name}"
        fix = f"did you mean {close}?" if close else "check the name"
        module = name.rpartition(".")[0]
        if kin := [known for known in known_names() if known.rpartition(".")[0] == module]:
            why = f"its module has {' and '.join(known.rpartition('.')[2] for known in kin)}"
            found.error(child.place, what, why, f"did you mean {nearest(name, kin) or kin[0]}?")
            return None
        found.warning(child.place, what, "it is looked for where the suite runs", fix)
    return name


def _implementation(entry: Entry | None, generator: Generator | None, found: Findings) -> Implementation:
    default: Implementation = "user" if generator is None else "native" if generator.native else "orbax"
    if entry is None:
        return default
    value = entry.node.value
    if value not in ("native", "orbax"):
        what = f"implementation must be native or orbax, not {told(value)}"
        found.error(entry.node.place, what, fix="write one of them, or remove the key")
    elif generator is None:
        why = "the class is not one of Orbax's"
        found.error(entry.place, "implementation cannot be chosen here", why, "remove the key")
    elif value == "native" and not generator.native:
        what = f"{generator.name.rpartition('.')[2]} has no native implementation"
        found.error(entry.node.place, what, fix="remove the key: Orbax's own class runs")
    else:
        chosen: Implementation = "native" if value == "native" else "orbax"
        return chosen
    return default


def _refuse_digests(benchmarks: Node, found: Findings) -> None:
    for item in benchmarks.items:
        for key in ("capture_digests_path", "reference_digests_path"):
            digests = item.at(["options", key])
            if digests is not None and digests.value:
                why = "values on simulated devices are made up"
                found.error(
                    _key_place(item, key), f"{key} cannot be used with simdevice", why, "remove one of them"
                )


def _key_place(item: Node, key: str) -> Place:
    return item.entries["options"].node.entries[key].place
