"""Overrides of a suite, from command line or form: `KEY=VALUE`, KEY a path like `benchmarks.0.options.x`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import yaml

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.findings import told
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import Entry, Node, load


def apply_overrides(text: str, assignments: Sequence[str], file: str = "suite") -> str:
    """Returns the text with each assignment made: comments and line numbers stay where that is possible.

    The part before the last `.` must exist; the last part may be a new key. Values are YAML: `true`, `[1,
    2]`, `null`. Raises BadInput with everything that is wrong with the assignments, or with the text
    itself.
    """
    problems: list[Problem] = []
    for assignment in assignments:
        root = _root(text, file)
        try:
            path, value = _parse(assignment)
            text = _assign(text, root, path, value, assignment)
        except BadInput as refusal:
            problems.extend(refusal.problems)
    if problems:
        raise BadInput(problems)
    return text


def graft(root: Node, assignments: Sequence[str], *, example: str) -> Node:
    """Returns a file's content with each assignment made: what it sets stands at the place `--set …` from then on.

    Mappings on the way that are not there are. `example` is an assignment as it should be, for people. Raises BadInput
    with everything that is wrong with the assignments.
    """
    problems: list[Problem] = []
    for assignment in assignments:
        try:
            path, value = _parsed(assignment, example)
            root = _grafted(root, path, _placed(value, Place(f"--set {assignment}")), assignment)
        except BadInput as refusal:
            problems.extend(refusal.problems)
    if problems:
        raise BadInput(problems)
    return root


def _grafted(node: Node, path: Sequence[str], new: Node, assignment: str, above: str = "") -> Node:
    if not path:
        return new
    part, rest, where = path[0], path[1:], f"{above}{path[0]}"
    if node.value is None:
        node = Node({}, new.place, (0, 0))
    child = _child(node, part)
    if isinstance(node.value, dict):
        inner = _grafted(child or Node({}, new.place, (0, 0)), rest, new, assignment, f"{where}.")
        place = new.place if child is None or not rest else node.entries[part].place
        entries = {**node.entries, part: Entry(part, place, inner)}
        return replace(node, value={**node.value, part: inner.value}, entries=entries)
    if isinstance(node.value, list) and child is not None:
        items = list(node.items)
        items[int(part)] = _grafted(child, rest, new, assignment, f"{where}.")
        return replace(node, value=[one.value for one in items], items=tuple(items))
    has = f"{above.rstrip('.')} is {told(node.value)}, which has no parts"
    if isinstance(node.value, list):
        has = f"it has items 0 to {len(node.items) - 1}" if node.items else "it is empty"
    raise BadInput(f"override {assignment!r}: there is no {where}", fix=has)


def _placed(node: Node, place: Place) -> Node:
    """Returns a value with all of its parts at one place."""
    entries = {key: Entry(key, place, _placed(one.node, place)) for key, one in node.entries.items()}
    return replace(node, place=place, items=tuple(_placed(one, place) for one in node.items), entries=entries)


def _root(text: str, file: str) -> Node:
    loaded = load(text, file)
    if loaded.root is None or loaded.problems:
        raise BadInput(loaded.problems)
    return loaded.root


def _parse(assignment: str) -> tuple[list[str], Any]:
    path, node = _parsed(assignment, "num_repeats=5")
    return path, node.value


def _parsed(assignment: str, example: str) -> tuple[list[str], Node]:
    key, equals, written = assignment.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path):
        raise BadInput(f"override {assignment!r} is not KEY=VALUE", fix=f"write {example}")
    if not written.strip():
        return path, Node(None, Place(""), (0, 0))
    loaded = load(written, f"override {assignment!r}")
    if loaded.root is None or loaded.problems:
        raise BadInput([_without_line(problem) for problem in loaded.problems])
    return path, loaded.root


def _without_line(problem: Problem) -> Problem:
    """A line and column would count within the value only."""
    place = Place(problem.place.file) if problem.place else None
    return replace(problem, place=place)


def _assign(text: str, root: Node, path: Sequence[str], value: Any, assignment: str) -> str:
    parent = root
    for depth, part in enumerate(path[:-1]):
        child = _child(parent, part)
        if child is None:
            raise _unknown(parent, path[: depth + 1], assignment)
        parent = child
    last = path[-1]
    target = _child(parent, last)
    if target is None and not isinstance(parent.value, dict):
        raise _unknown(parent, path, assignment)
    if target is not None:
        start, end = target.span
        indent = "" if target.flow or not isinstance(target.value, (dict, list)) else "  "
        edited = text[:start] + indent + _written(value) + _tail(text[start:end]) + text[end:]
    else:
        edited = _with_new_key(text, parent, last, value)
    expected = _assigned(root.value, path, value)
    return edited if _reads_as(edited, expected) else _dumped(expected)


def _child(node: Node, part: str) -> Node | None:
    if isinstance(node.value, list):
        return node.child(int(part)) if part.isdecimal() else None
    return node.child(part)


def _unknown(parent: Node, path: Sequence[str], assignment: str) -> BadInput:
    last, where = path[-1], ".".join(path[:-1]) or "the suite"
    if isinstance(parent.value, list):
        has = f"{where} has items 0 to {len(parent.items) - 1}" if parent.items else f"{where} is empty"
    elif isinstance(parent.value, dict):
        near = nearest(last, parent.entries)
        has = f"did you mean {near!r}?" if near else f"{where} has {', '.join(parent.entries) or 'no keys'}"
    else:
        has = f"{where} is {told(parent.value)}, which has no parts"
    return BadInput(f"override {assignment!r}: there is no {'.'.join(path)} in the suite", fix=has)


def _written(value: Any) -> str:
    """The value on one line, as YAML in flow style."""
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False
    )
    return text.strip()[1:-1]


def _tail(replaced: str) -> str:
    """What a block-style value took in after its end: the line break and comments before the next key."""
    kept = replaced.rstrip()
    return replaced[len(kept) :]


def _with_new_key(text: str, parent: Node, key: str, value: Any) -> str:
    """Puts the key in front of the first one: the only place whose indentation is known."""
    entry = f"{_written(key)}: {_written(value)}"
    start = parent.span[0]
    if parent.flow:
        return text[: start + 1] + entry + (", " if parent.entries else "") + text[start + 1 :]
    column = (parent.place.column or 1) - 1
    return text[:start] + entry + "\n" + " " * column + text[start:]


def _assigned(data: Any, path: Sequence[str], value: Any) -> Any:
    result = copy.deepcopy(data)
    parent = result
    for part in path[:-1]:
        parent = parent[int(part) if isinstance(parent, list) else part]
    parent[int(path[-1]) if isinstance(parent, list) else path[-1]] = value
    return result


def _reads_as(text: str, expected: Any) -> bool:
    loaded = load(text, "edited")
    return loaded.root is not None and not loaded.problems and _same(loaded.root.value, expected)


def _same(one: Any, other: Any) -> bool:
    """Equality that tells 1, 1.0 and true apart."""
    return type(one) is type(other) and one == other and _same_parts(one, other)


def _same_parts(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(key in other and _same(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return all(_same(*pair) for pair in zip(one, other, strict=True))
    return True


def _dumped(data: Any) -> str:
    class NoAliases(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(data, Dumper=NoAliases, sort_keys=False)
    return text
