"""Of what kind a YAML file is, by its keys: a suite, a target, a nightly, an acceptance or an environment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import load, read_text

Kind = Literal["suite", "target", "nightly", "acceptance", "environment"]

_MARKS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("suite", frozenset({"benchmarks"})),
    ("target", frozenset({"kind"})),
    ("nightly", frozenset({"suites", "include"})),
    ("acceptance", frozenset({"variants"})),
    ("environment", frozenset({"record", "tpu_pools"})),
)
"""Keys that files of one kind alone have; what comes first wins."""


_OF_SUITES = frozenset({"suite_name", "benchmarks", "include"})
_TAKEN_BY = {
    "target": "name a suite, and this one by --target {}",
    "nightly": "slicebench nightly {0}; slicebench check {0} says whether it is right",
    "acceptance": "slicebench acceptance {0}; slicebench check {0} says whether it is right",
    "environment": "slicebench env plan {}",
}


def refuse_other_kind(file: str) -> None:
    """Raises BadInput where a suite is wanted and a file of another kind is named. Of what it is not, others tell."""
    try:
        root = load(read_text(file), file).root if Path(file).is_file() else None
    except BadInput:
        return
    keys = set(root.entries) if root is not None else set()
    kind = kind_of_file(keys)
    if keys and kind != "suite" and not keys & _OF_SUITES:
        article = "an" if kind[0] in "ae" else "a"
        raise BadInput(f"{file} is {article} {kind}, and no suite", fix=_TAKEN_BY[kind].format(file))


def kind_of_file(keys: Collection[str]) -> Kind:
    """Returns what a file is meant to be; of one that says nothing of it, a suite."""
    for kind, marks in _MARKS:
        if marks & set(keys):
            return kind
    scores = {kind: sum(_likeness(keys, known)) for kind, known in _known()}
    return max(scores, key=lambda kind: scores[kind])


def _likeness(keys: Iterable[str], known: Collection[str]) -> Iterator[int]:
    """Yields for each key how much it speaks for those that are known: what is mistyped, less."""
    for key in keys:
        yield 2 if key in known else 1 if nearest(key, known) else 0


def _known() -> Iterator[tuple[Kind, Collection[str]]]:
    from runtime.contract.suite_reader import SUITE_KEYS
    from tasks.config.acceptance import AcceptanceConfig
    from tasks.config.environment import EnvironmentConfig
    from tasks.config.load import target_keys
    from tasks.config.nightly import NightlyConfig

    yield "suite", SUITE_KEYS
    yield "nightly", NightlyConfig.model_fields
    yield "acceptance", AcceptanceConfig.model_fields
    yield "target", target_keys()
    yield "environment", EnvironmentConfig.model_fields
