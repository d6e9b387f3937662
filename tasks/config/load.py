"""Reads target files: YAML into the models of target.py, with every problem at its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pydantic

from runtime.contract.errors import BadInput, Problem
from runtime.contract.yamlfile import Node, load, nearest, place_of, read_text
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig

_Model = type[LocalTargetConfig] | type[SshTargetConfig] | type[TpuVmTargetConfig]
_KINDS: dict[str, _Model] = {
    "local": LocalTargetConfig,
    "ssh": SshTargetConfig,
    "tpu_vm": TpuVmTargetConfig,
}


def load_target(path: Path) -> TargetConfig:
    """Returns a target file's model. Raises BadInput with all problems, each with line and column."""
    loaded = load(read_text(path), str(path))
    if loaded.root is None or loaded.problems:
        raise BadInput(loaded.problems)
    model = _model(loaded.root)
    try:
        return model.model_validate(loaded.root.value)
    except pydantic.ValidationError as error:
        raise BadInput([_problem(loaded.root, detail, model) for detail in error.errors()]) from None


def _model(root: Node) -> _Model:
    kind = root.child("kind")
    fix = f"write kind: {' or '.join(_KINDS)}"
    if kind is None:
        raise BadInput(Problem("error", root.place, "a target needs a kind", fix=fix))
    if not isinstance(kind.value, str) or kind.value not in _KINDS:
        raise BadInput(Problem("error", kind.place, f"{kind.value!r} is no kind of target", fix=fix))
    return _KINDS[kind.value]


def _problem(root: Node, detail: object, model: type[pydantic.BaseModel]) -> Problem:
    """Turns one of pydantic's findings into a problem at its place."""
    assert isinstance(detail, dict)
    where = place_of(root, detail["loc"])
    words = [word for word in detail["loc"] if isinstance(word, str)]
    name = words[-1] if words else "target"
    if detail["type"] == "extra_forbidden":
        nested: Mapping[str, type[pydantic.BaseModel]] = getattr(model, "nested", {})
        model = next((nested[word] for word in reversed(words[:-1]) if word in nested), model)
        near = nearest(name, model.model_fields)
        known = ", ".join(model.model_fields)
        return Problem(
            "error",
            where,
            f"unknown key {name!r}",
            fix=f"did you mean {near!r}?" if near else f"known: {known}",
        )
    if detail["type"] == "value_error":  # one of our own sentences
        return Problem("error", where, f"{name}: {detail['ctx']['error']}")
    return Problem("error", where, f"{name}: {detail['msg'].lower()}", fix=f"it is {detail['input']!r}")
