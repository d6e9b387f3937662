"""Reads files of targets and nightlies: YAML into their models, with every problem at its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pydantic

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import Node, load, place_of, read_text
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.config.truths import mistaken
from tasks.config.wording import wanted, written

if TYPE_CHECKING:
    from tasks.config.nightly import NightlyConfig

_Read = TypeVar("_Read", bound=pydantic.BaseModel)
_KEY = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b|\b[a-z]+(?=:)|^topology\b")
"""How a sentence of ours speaks of a key: by its colon, or a name that nothing else has."""
_Model = type[LocalTargetConfig] | type[SshTargetConfig] | type[TpuVmTargetConfig] | type[GkeTargetConfig]
_KINDS: dict[str, _Model] = {
    "local": LocalTargetConfig,
    "ssh": SshTargetConfig,
    "tpu_vm": TpuVmTargetConfig,
    "gke": GkeTargetConfig,
}


def load_target(path: Path) -> TargetConfig:
    """Returns a target file's model. Raises BadInput with all problems, each with line and column."""
    root = root_of(path)
    return validated(root, _model(root), "target")


def load_nightly(path: Path) -> NightlyConfig:
    """Returns a nightly's model. Raises BadInput with all problems, each with line and column."""
    from tasks.config.nightly import NightlyConfig

    return validated(root_of(path), NightlyConfig, "nightly")


def root_of(path: Path) -> Node:
    """Returns what a file holds, with its places. Raises BadInput where it is no YAML."""
    loaded = load(read_text(path), str(path))
    if loaded.root is None or loaded.problems:
        raise BadInput(loaded.problems)
    return loaded.root


def validated(root: Node, model: type[_Read], what: str) -> _Read:
    """Returns the model of what a file holds; `what` it is called. Raises BadInput with all problems."""
    wrong = [
        Problem(
            "error",
            place_of(root, one.path),
            f"{one.path[-1]} must be {one.wanted}, not {written(one.given)}",
        )
        for one in mistaken(model, root.value)
    ]
    try:
        made = model.model_validate(root.value)
    except pydantic.ValidationError as error:
        raise BadInput(list(dict.fromkeys([*wrong, *_problems(root, error, model, what)]))) from None
    if wrong:
        raise BadInput(wrong)
    return made


def _model(root: Node) -> _Model:
    kind = root.child("kind")
    fix = f"write kind: {' or '.join(_KINDS)}"
    if kind is None:
        raise BadInput(Problem("error", root.place, "a target needs a kind", fix=fix))
    if not isinstance(kind.value, str) or kind.value not in _KINDS:
        raise BadInput(Problem("error", kind.place, f"{kind.value!r} is no kind of target", fix=fix))
    return _KINDS[kind.value]


def _problems(
    root: Node, error: pydantic.ValidationError, model: type[pydantic.BaseModel], what: str
) -> Iterator[Problem]:
    """Yields pydantic's findings at their places, one for each field: a union fails once for each branch."""
    branches: dict[tuple[Place, str, str], list[str]] = {}
    for detail in error.errors():
        where, name = place_of(root, detail["loc"]), _name(root, detail["loc"], what)
        told = str(detail.get("ctx", {}).get("error", ""))
        if detail["type"] == "extra_forbidden":
            yield _unknown(where, name, detail["loc"], model)
        elif detail["type"] == "missing":
            name = str(detail["loc"][-1])
            yield Problem("error", where, f"{name} is missing", fix=f"write {name}: …")
        elif detail["type"] == "value_error":  # one of our own sentences
            yield Problem("error", _spoken_of(root, detail["loc"], told) or where, f"{name}: {told}")
        else:
            branches.setdefault((where, name, written(detail["input"])), []).append(wanted(detail))
    for (where, name, given), words in branches.items():
        yield Problem("error", where, f"{name} must be {' or '.join(dict.fromkeys(words))}, not {given}")


def _name(root: Node, path: Sequence[str | int], name: str) -> str:
    """Returns the last word of a path that is a key of the file, or a key that is missing there; else `name`."""
    node = root
    for part in path:
        child = node.child(part)
        if child is not None:
            node, name = child, part if isinstance(part, str) else name
        elif isinstance(part, str) and node.entries:
            name = part
    return name


def _spoken_of(root: Node, path: Sequence[str | int], told: str) -> Place | None:
    """Returns where the first key stands that a sentence about a mapping speaks of, if that is there."""
    node = root.at(path)
    entries = node.entries if node is not None else {}
    first = [told.split(" ", 1)[0].strip("':")] if path else []
    return next((entries[word].place for word in (*first, *_KEY.findall(told)) if word in entries), None)


def _unknown(where: Place, name: str, path: Sequence[str | int], model: type[pydantic.BaseModel]) -> Problem:
    words = [word for word in path if isinstance(word, str)]
    nested: Mapping[str, type[pydantic.BaseModel]] = getattr(model, "nested", {})
    model = next((nested[word] for word in reversed(words[:-1]) if word in nested), model)
    near = nearest(name, model.model_fields)
    known = ", ".join(model.model_fields)
    return Problem(
        "error", where, f"unknown key {name!r}", fix=f"did you mean {near!r}?" if near else f"known: {known}"
    )
