"""Reads files of targets and nightlies: YAML into their models, with every problem at its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pydantic

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import Node, load, place_of, read_text
from tasks.config.beside_file import with_manifests
from tasks.config.findings import Keys, Written, checked
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.config.truths import mistaken
from tasks.config.wording import written

if TYPE_CHECKING:
    from tasks.config.acceptance import AcceptanceConfig
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
    config: TargetConfig = validated(root, _model(root), "target")
    place = config.cluster if isinstance(config, GkeTargetConfig) else None
    if place is None or place.make is None:
        return config
    make = place.make.model_copy(
        update={"queueing": with_manifests(place.make.queueing, path.absolute().parent)}
    )
    return config.model_copy(update={"cluster": place.model_copy(update={"make": make})})


def load_nightly(path: Path) -> NightlyConfig:
    """Returns a nightly's model. Raises BadInput with all problems, each with line and column."""
    from tasks.config.nightly import NightlyConfig
    from tasks.config.nightly_sense import contradictions

    root = root_of(path)
    config = validated(root, NightlyConfig, "nightly")
    if wrong := [Problem("error", place_of(root, where), told) for where, told in contradictions(config)]:
        raise BadInput(wrong)
    return config


def target_keys() -> set[str]:
    """Returns the keys that a target of any kind may have."""
    return {name for model in _KINDS.values() for name in model.model_fields}


def load_acceptance(path: Path) -> AcceptanceConfig:
    """Returns an acceptance's model. Raises BadInput with all problems, each with line and column."""
    from tasks.config.acceptance import AcceptanceConfig

    return validated(root_of(path), AcceptanceConfig, "acceptance")


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
        made = checked(model, root.value, _InFile(root, what))
    except BadInput as error:
        raise BadInput(list(dict.fromkeys([*wrong, *error.problems]))) from None
    if wrong:
        raise BadInput(wrong)
    return made


def _model(root: Node) -> _Model:
    kind = root.child("kind")
    fix = f"write kind: {' or '.join(_KINDS)}"
    if kind is None:
        meant = nearest("kind", root.entries)
        place = root.entries[meant].place if meant else root.place
        told = f"{fix}, in place of {meant}" if meant else fix
        raise BadInput(Problem("error", place, "a target needs a kind", fix=told))
    if not isinstance(kind.value, str) or kind.value not in _KINDS:
        raise BadInput(Problem("error", kind.place, f"{kind.value!r} is no kind of target", fix=fix))
    return _KINDS[kind.value]


class _InFile(Written):
    """A mapping of a YAML file; `what` is what all of it is called."""

    def __init__(self, root: Node, what: str) -> None:
        self._root, self._what = root, what

    def place(self, path: Keys, told: str = "") -> Place:
        """Returns where a field stands; of a sentence about a mapping, the first key that it speaks of, if there."""
        node = self._root.at(path)
        entries = node.entries if node is not None else {}
        first = [told.split(" ", 1)[0].strip("':")] if path else []
        words = (*first, *_KEY.findall(told)) if told else ()
        spoken_of = next((entries[word].place for word in words if word in entries), None)
        return spoken_of or place_of(self._root, path)

    def as_text(self, given: object) -> str:
        """Returns what makes text of a number, a date or a truth."""
        return "" if given is None or isinstance(given, list | Mapping) else "put it in quotes"

    def name(self, path: Keys) -> str:
        """Returns the last word of a path that is a key of the file, or a key that is missing there."""
        node, name = self._root, self._what
        for part in path:
            child = node.child(part)
            if child is not None:
                node, name = child, part if isinstance(part, str) else name
            elif isinstance(part, str) and isinstance(node.value, Mapping):
                name = part
        return name
