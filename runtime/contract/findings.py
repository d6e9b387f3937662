"""Reads values out of a YAML tree, and collects everything that is wrong with them instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from runtime.contract.errors import Place, Problem
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import Entry, Node, kind_of

T = TypeVar("T")


class Findings:
    """The problems found so far. Readers return None for a value they had to refuse."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems: list[Problem] = list(problems)

    @property
    def failed(self) -> bool:
        """Whether there is at least one error."""
        return any(problem.severity == "error" for problem in self.problems)

    def error(self, place: Place | None, what: str, why: str = "", fix: str = "") -> None:
        """Notes something that must be put right."""
        self.problems.append(Problem("error", place, what, why, fix))

    def warning(self, place: Place | None, what: str, why: str = "", fix: str = "") -> None:
        """Notes something that can stay, but is probably not meant."""
        self.problems.append(Problem("warning", place, what, why, fix))

    def mapping(self, node: Node, name: str, fix: str = "") -> Mapping[str, Entry] | None:
        """Returns the entries of a mapping."""
        if isinstance(node.value, dict):
            return node.entries
        self.error(
            node.place, f"{name} must be a mapping, not {kind_of(node.value)}", fix=fix or "write key: value"
        )
        return None

    def known_keys(self, entries: Mapping[str, Entry], known: Iterable[str], of: str, why: str = "") -> None:
        """Refuses keys that nobody would read, naming the one that was probably meant."""
        known = list(known)
        for entry in entries.values():
            if entry.key not in known:
                near = nearest(entry.key, known)
                fix = f"did you mean {near!r}?" if near else f"remove it; {of} takes {', '.join(known)}"
                self.error(entry.place, f"unknown key {entry.key!r} in {of}", why, fix)

    def sequence(self, node: Node, name: str, fix: str = "write [a, b]") -> tuple[Node, ...] | None:
        """Returns the items of a list."""
        if isinstance(node.value, list):
            return node.items
        self.error(node.place, f"{name} must be a list, not {kind_of(node.value)}", fix=fix)
        return None

    def text(self, node: Node, name: str) -> str | None:
        """Returns a text that is not empty."""
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        what = "empty" if isinstance(node.value, str) else kind_of(node.value)
        self.error(node.place, f"{name} must be text, not {what}", fix=_quoted(node.value))
        return None

    def boolean(self, node: Node, name: str) -> bool | None:
        """Returns true or false."""
        if isinstance(node.value, bool):
            return node.value
        fix = "write true or false" + (", without quotes" if isinstance(node.value, str) else "")
        self.error(node.place, f"{name} must be true or false, not {told(node.value)}", fix=fix)
        return None

    def integer(self, node: Node, name: str, least: int | None = None, most: int | None = None) -> int | None:
        """Returns a whole number within bounds."""
        value = node.value
        bounds = "" if least is None else f" of at least {least}"
        if not isinstance(value, int) or isinstance(value, bool):
            fix = "write a whole number" + (", without quotes" if isinstance(value, str) else "")
            self.error(node.place, f"{name} must be an integer{bounds}, not {told(value)}", fix=fix)
            return None
        if (least is not None and value < least) or (most is not None and value > most):
            upper = "" if most is None else f" and at most {most}"
            self.error(node.place, f"{name} must be an integer{bounds}{upper}, not {value}", fix="correct it")
            return None
        return value

    def seconds(self, node: Node, name: str) -> float | None:
        """Returns a positive number of seconds."""
        value = node.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
            return float(value)
        what = f"{name} must be a positive number of seconds, not {told(value)}"
        self.error(node.place, what, fix="write a number like 60")
        return None

    def optional(self, node: Node, name: str, read: Callable[[Node, str], T | None]) -> T | None:
        """Returns None for null, else what `read` returns."""
        return None if node.value is None else read(node, name)


def told(value: Any) -> str:
    """Says what somebody wrote: the value itself when it is short, else its kind."""
    if isinstance(value, (list, dict)) or value is None:
        return kind_of(value)
    written = repr(value) if not isinstance(value, bool) else str(value).lower()
    return written if len(written) <= 40 else kind_of(value)


def _quoted(value: Any) -> str:
    return f'write "{value}" in quotes' if isinstance(value, (int, float)) else "write some text"
