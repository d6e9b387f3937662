"""YAML with places: what yaml.safe_load gives, plus the line and column of every key and value, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.nearest import nearest
from runtime.contract.yamlsyntax import malformed, place_at, unreadable

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 40
MAX_NODES = 20_000
"""Limits of one file, aliases counted as often as they are used: far above any real suite, far below a bomb."""

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(frozen=True)
class Node:
    """One value: `value` is what yaml.safe_load gives, `items` or `entries` its parts, `span` its characters."""

    value: Any
    place: Place
    span: tuple[int, int]
    flow: bool = False
    items: tuple[Node, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def at(self, path: Sequence[str | int]) -> Node | None:
        """Returns the node that a path of keys and indexes leads to, or None."""
        node: Node | None = self
        for part in path:
            if node is None:
                return None
            node = node.child(part)
        return node

    def child(self, part: str | int) -> Node | None:
        """Returns one part by key or index, or None."""
        if isinstance(part, int):
            return self.items[part] if 0 <= part < len(self.items) else None
        entry = self.entries.get(part)
        return entry.node if entry else None


@dataclass(frozen=True)
class Entry:
    """One key of a mapping and its value."""

    key: str
    place: Place
    node: Node


@dataclass(frozen=True)
class Loaded:
    """A file as far as it could be read. `root` is None when there is nothing to go on with."""

    root: Node | None
    problems: tuple[Problem, ...]


def read_text(path: Path | str) -> str:
    """Returns the text of a configuration file. Raises BadInput with the reason when it cannot be read."""
    name = str(path)

    def refused(what: str, fix: str) -> BadInput:
        return BadInput(Problem("error", Place(name), what, fix=fix))

    try:
        with Path(path).open("rb") as file:
            data = file.read(4 * MAX_CHARACTERS + 1)
    except FileNotFoundError:
        near = nearest(Path(path).name, _files_beside(Path(path)))
        fix = f"did you mean {Path(path).with_name(near)}?" if near else "check the path"
        raise refused("there is no such file", fix) from None
    except OSError as error:
        raise refused(f"cannot be read: {error.strerror or error}", "give a readable file") from None
    if len(data) > 4 * MAX_CHARACTERS:
        raise refused(
            f"is larger than {MAX_CHARACTERS} characters",
            "no file of this kind needs that: is it another one?",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(name, before.count(b"\n") + 1)
        what = f"is not UTF-8 text (byte {error.start})"
        raise BadInput(Problem("error", place, what, fix="save it as UTF-8")) from None


def _files_beside(path: Path) -> list[str]:
    try:
        return [child.name for child in path.parent.iterdir()]
    except OSError:
        return []


def load(text: str, file: str) -> Loaded:
    """Reads one YAML document. Problems of the text itself (syntax, duplicate keys, limits) are returned,
    not raised."""
    if len(text) > MAX_CHARACTERS:
        what = f"the file has {len(text)} characters, more than {MAX_CHARACTERS}"
        return Loaded(None, (Problem("error", Place(file), what, fix="split it"),))
    builder = _Builder(file)
    try:
        loader = _BoundedLoader(text)
        try:
            tree = loader.get_single_node()
        finally:
            loader.dispose()
        root = None if tree is None else builder.build(tree)
    except _TooMuch as error:
        return Loaded(
            None, (*builder.problems, Problem("error", error.place(file), error.what, fix=error.fix))
        )
    except yaml.reader.ReaderError as error:
        return Loaded(None, (unreadable(error, text, file),))
    except yaml.MarkedYAMLError as error:
        return Loaded(None, (malformed(error, text, file),))
    if root is None and not builder.problems:
        empty = Problem("error", Place(file, 1, 1), "the file is empty", fix="see configs/ for examples")
        return Loaded(None, (empty,))
    return Loaded(root, tuple(builder.problems))


def place_of(root: Node, path: Sequence[str | int]) -> Place:
    """Returns where a path of keys and indexes leads, as far as it exists.

    The last part stands for its key when it is one. Parts that lead nowhere are passed over: that is how
    pydantic's `loc` names the branch of a union, or a key that is missing.
    """
    node, place = root, root.place
    for part in path:
        child = node.child(part)
        if child is None:
            continue
        place = node.entries[part].place if isinstance(part, str) else child.place
        node = child
    return place


class _TooMuch(yaml.YAMLError):
    """A limit was passed."""

    def __init__(self, what: str, mark: Any, fix: str) -> None:
        super().__init__(what)
        self.what, self.mark, self.fix = what, mark, fix

    def place(self, file: str) -> Place:
        return place_at(file, self.mark)


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes as SafeLoader does, but not deeper or more than the limits."""

    depth = 0
    count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH:
            mark = self._mark()
            raise _TooMuch(f"nested deeper than {MAX_DEPTH} levels", mark, "flatten it")
        if self.count > MAX_NODES:
            mark = self._mark()
            raise _TooMuch(f"more than {MAX_NODES} values", mark, "split the file")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]


class _Builder:
    """Turns PyYAML's nodes into ours, collecting what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._constructor = yaml.constructor.SafeConstructor()
        self._count = 0
        self._open: list[yaml.Node] = []

    def build(self, node: yaml.Node) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise _TooMuch(
                f"more than {MAX_NODES} values once aliases are followed", node.start_mark, "write less"
            )
        if any(node is outer for outer in self._open):
            raise _TooMuch("an alias refers to a value that holds it", node.start_mark, "write the value out")
        self._open.append(node)
        try:
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node)
            if node.tag not in _PLAIN_TAGS:
                self._problem(
                    node, f"tag {_short(node.tag)} is not supported", "write a plain mapping or list"
                )
            return self._mapping(node) if isinstance(node, yaml.MappingNode) else self._sequence(node)
        finally:
            self._open.pop()

    def _problem(self, node: yaml.Node, what: str, fix: str, why: str = "") -> None:
        self.problems.append(Problem("error", place_at(self.file, node.start_mark), what, why, fix))

    def _node(self, node: yaml.Node, value: Any, **parts: Any) -> Node:
        span = (node.start_mark.index, node.end_mark.index)
        return Node(
            value,
            place_at(self.file, node.start_mark),
            span,
            bool(getattr(node, "flow_style", False)),
            **parts,
        )

    def _scalar(self, node: yaml.ScalarNode) -> Node:
        if node.tag not in self._constructor.yaml_constructors:
            self._problem(node, f"tag {_short(node.tag)} is not supported", "write a plain value")
            return self._node(node, None)
        try:
            value = self._constructor.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, OverflowError, KeyError, IndexError):
            self._problem(
                node, f"{node.value[:40]!r} is not a {_short(node.tag)}", "put it in quotes if it is text"
            )
            value = None
        return self._node(node, value)

    def _sequence(self, node: yaml.Node) -> Node:
        items = tuple(self.build(child) for child in node.value)
        return self._node(node, [item.value for item in items], items=items)

    def _mapping(self, node: yaml.MappingNode) -> Node:
        seen: dict[str, yaml.Node] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge" or not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in seen:
                first = seen[key_node.value].start_mark.line + 1
                what = f"key {key_node.value!r} is given twice"
                self._problem(key_node, what, "remove one of the two", f"first on line {first}")
            else:
                seen[key_node.value] = key_node
        pairs = node.value
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in pairs):
            self._constructor.flatten_mapping(node)
            pairs = node.value
        entries = dict(self._entries(pairs))
        return self._node(node, {key: entry.node.value for key, entry in entries.items()}, entries=entries)

    def _entries(self, pairs: Sequence[tuple[yaml.Node, yaml.Node]]) -> Iterator[tuple[str, Entry]]:
        for key_node, value_node in pairs:
            key = self.build(key_node).value
            node = self.build(value_node)
            if isinstance(key, str):
                yield key, Entry(key, place_at(self.file, key_node.start_mark), node)
                continue
            written = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            what = f"key {written or 'here'} is read as {kind_of(key)}, not as text"
            self._problem(key_node, what, f"write '{written}' in quotes" if written else "give it a name")


def kind_of(value: Any) -> str:
    """Says in words what kind of value YAML made: 'a bool', 'a list' …"""
    names = {
        str: "text",
        bool: "a bool",
        int: "an integer",
        float: "a number",
        type(None): "null",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def _short(tag: str) -> str:
    return tag.removeprefix("tag:yaml.org,2002:")
