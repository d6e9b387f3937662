"""What of a nightly's matrix contradicts itself, though each of its words may be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.config.nightly import NightlyConfig, Which


Path = tuple[str | int, ...]


def contradictions(config: NightlyConfig) -> list[tuple[Path, str]]:
    """Returns a sentence for each, with the keys and indexes that lead to what it is about."""
    return [*_of_names(config), *_of_cells(config), *_of_elsewhere(config)]


def fits(which: Which, suite: str, target: str, version: str) -> bool:
    """Says whether a cell of the matrix is one of those that are meant; `version` is its label."""
    pairs = ((which.suite, suite), (which.target, target), (which.version, version))
    return all(word is None or word == value for word, value in pairs)


def _of_names(config: NightlyConfig) -> Iterator[tuple[Path, str]]:
    if not (config.suites and config.targets and config.versions) and not config.include:
        yield (), "there is nothing to measure: name suites, targets and versions, or include"
    for words, many in (("suites", config.suites), ("targets", config.targets)):
        if found := _twice(many):
            yield (words, found[0]), f"{words} has {found[1]} twice, remove one of the two"
    labels = [version.name for version in config.versions]
    if found := _twice(labels):
        yield ("versions", found[0]), f"two versions are called {found[1]}, give one of them a label"
    for number, which in enumerate(config.exclude):
        for name, word, known in (
            ("suite", which.suite, config.suites),
            ("target", which.target, config.targets),
            ("version", which.version, labels),
        ):
            if word is not None and word not in known:
                told = f"exclude leaves out a {name} {word!r} that is not in the matrix: {', '.join(known)}"
                yield ("exclude", number, name), told


def _of_cells(config: NightlyConfig) -> Iterator[tuple[Path, str]]:
    matrix = {
        (suite, target, version)
        for suite, target, version in product(config.suites, config.targets, config.versions)
        if not any(fits(which, suite, target, version.name) for which in config.exclude)
    }
    if config.suites and not matrix and not config.include:
        yield ("exclude",), "every cell of the matrix is excluded, leave one in, or include one"
    for number, more in enumerate(config.include):
        cell = (more.suite, more.target, more.version)
        if cell in matrix:
            told = " · ".join((more.suite, more.target, more.version.name))
            yield ("include", number), f"include has the cell {told}, which is there anyhow, remove it"
        matrix.add(cell)


def _of_elsewhere(config: NightlyConfig) -> Iterator[tuple[Path, str]]:
    targets = {*config.targets, *(more.target for more in config.include)}
    for target, others in config.elsewhere.items():
        place = ("elsewhere", target)
        if target not in targets:
            yield place, f"elsewhere tells what to do without {target!r}, which is no target here"
        elif target in others:
            at = others.index(target)
            yield (*place, at), f"elsewhere has {target} in place of itself, name other targets"
        elif found := _twice(others):
            yield (*place, found[0]), f"elsewhere has {found[1]} twice for {target}, remove one of the two"
        elif not others:
            yield place, f"elsewhere has nothing in place of {target}, name a target, or remove it"


def _twice(names: Sequence[str]) -> tuple[int, str] | None:
    """Returns the first name that was there before, and where it is again."""
    return next(((n, name) for n, name in enumerate(names) if name in names[:n]), None)
