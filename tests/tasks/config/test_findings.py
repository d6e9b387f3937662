"""What a model refuses is told in one way: of files by line and column, of flags as typed, of forms by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runtime.contract.errors import BadInput
from runtime.contract.yamlfile import load
from tasks.config.as_flags import Flags
from tasks.config.findings import Written, checked
from tasks.config.load import validated

ROOT = Path(__file__).parents[3]


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    wait_s: int = Field(1, gt=0)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    slices: int = Field(1, ge=1)
    devices: int | Literal["auto"] = "auto"
    limits: Inner = Field(default_factory=Inner)
    nested: ClassVar[Mapping[str, type[BaseModel]]] = {"limits": Inner}

    @field_validator("name")
    @classmethod
    def _good(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("no name is bad")
        return name

    @model_validator(mode="after")
    def _fits(self) -> Model:
        if self.slices == 7:
            raise ValueError("slices: 7 do not go with a name")
        return self


FLAGS = Flags({"limits.wait_s": "--wait", "devices": "--devices-each"}, ("slices",), {"--wait": "s"})

SAID: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"name": "n", "slices": 0},
        "1:11: slices must be at least 1, not 0",
        "--slices must be at least 1, not 0",
        "slices must be at least 1, not 0",
    ),
    (
        {"name": "n", "devices": "x"},
        "1:11: devices must be a whole number or auto, not 'x'",
        "--devices-each must be a whole number or auto, not x",
        "devices must be a whole number or auto, not 'x'",
    ),
    (
        {"name": "n", "limits": {"wait_s": 0}},
        "1:20: wait_s must be at least 1, not 0",
        "--wait must be at least 1 s, not 0",
        "wait_s must be at least 1, not 0",
    ),
    (
        {"name": "n", "limits": {"wait": 3}},
        "1:20: unknown key 'wait', did you mean 'wait_s'?",
        "unknown key 'wait', did you mean 'wait_s'?",
        "unknown key 'wait', did you mean 'wait_s'?",
    ),
    (
        {"slices": 2},
        "1:1: name is missing, write name: …",
        "--name is missing, give --name",
        "name is missing, write name: …",
    ),
    (
        {},
        "1:1: name is missing, write name: …",
        "--name is missing, give --name",
        "name is missing, write name: …",
    ),
    ({"name": "bad"}, "1:2: name: no name is bad", "--name: no name is bad", "name: no name is bad"),
    (
        {"name": "n", "slices": 7},
        "1:11: thing: slices: 7 do not go with a name",
        "--slices 7 do not go with a name",
        "slices: 7 do not go with a name",
    ),
]


@pytest.mark.parametrize(("given", "in_file", "as_flags", "as_form"), SAID)
def test_a_finding_is_told_as_it_was_written(
    given: dict[str, Any], in_file: str, as_flags: str, as_form: str
) -> None:
    told: Mapping[str, Written | None] = {as_flags: FLAGS, as_form: None}
    for expected, source in told.items():
        with pytest.raises(BadInput) as refused:
            checked(Model, given, source)
        assert str(refused.value) == expected
    text = "{" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}"
    root = load(text.replace("{'", "{").replace("':", ":"), "f.yaml").root
    assert root is not None
    with pytest.raises(BadInput) as refused:
        validated(root, Model, "thing")
    assert str(refused.value) == f"f.yaml:{in_file}"


def test_what_nobody_wrote_himself_says_what_it_is_about() -> None:
    with pytest.raises(BadInput) as refused:
        checked(Model, {"name": "n", "slices": 0}, about="the lease is none", fix="make it anew")
    assert str(refused.value) == "the lease is none: slices must be at least 1, not 0, make it anew"


MAY = {"tasks/config/findings.py", "flows/cli/wrong_flags.py", "tasks/config/environment_cluster.py"}


def test_there_is_no_other_way() -> None:
    sources = [path for part in ("flows", "tasks", "runtime") for path in (ROOT / part).rglob("*.py")]
    told = {
        str(path.relative_to(ROOT)) for path in sources if re.search(r"\bValidationError\b", path.read_text())
    }
    assert told <= MAY
