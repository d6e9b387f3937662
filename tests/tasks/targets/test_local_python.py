"""A Python that a target file names: it is looked at before anything is made, and taken as it is."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from runtime.contract.errors import BadInput
from tasks.config.load import load_target
from tasks.config.target import LocalTargetConfig
from tasks.targets import local_python
from tasks.targets.interpreter import PACKAGES, PROXY_PACKAGES

COMPLETE = {"python": "3.12.3", **dict.fromkeys(PACKAGES, "1.0")}


def local(python: str, platform: Literal["cpu", "gpu"] = "cpu", **more: Any) -> LocalTargetConfig:
    fields = {"kind": "local", "python": python, "platform": platform, **more}
    return LocalTargetConfig.model_validate(fields)


@pytest.mark.parametrize(
    ("platform", "versions", "told"),
    [
        ("cpu", COMPLETE, []),
        ("gpu", COMPLETE | {"jax-cuda13-plugin": "1.0"}, []),
        ("gpu", COMPLETE | {"jax-cuda12-plugin": "1.0"}, []),
        ("gpu", COMPLETE, ["/py has no CUDA plugin for JAX"]),
        ("cpu", COMPLETE | {"python": "3.10.12"}, ["/py is Python 3.10.12, workers need 3.11 or newer"]),
        ("cpu", {"python": "3.13.0", "jax": "1.0"}, ["/py lacks jaxlib, orbax-checkpoint, tensorstore"]),
    ],
)
def test_what_is_wrong_is_told(
    platform: Literal["cpu", "gpu"], versions: Mapping[str, str], told: list[str]
) -> None:
    problems = local_python.judge(local("/py", platform), versions)
    assert len(problems) == len(told)
    assert all(
        problem.what.startswith(start) and problem.fix for problem, start in zip(problems, told, strict=True)
    )


def test_the_proxy_asks_for_more() -> None:
    config = local("/py", encryption={"keys": {"*": "file:/k.json"}})
    [problem] = local_python.judge(config, COMPLETE | {"tink": "1.16"})
    assert problem.what.startswith("/py lacks cryptography, google-auth") and "tink" not in problem.what
    assert local_python.judge(config, COMPLETE | dict.fromkeys(PROXY_PACKAGES, "1")) == []


def test_this_python_is_taken_as_it_is(tmp_path: Path) -> None:
    image = local_python.brought(local(sys.executable))
    assert image.python == image.reference == sys.executable  # not what a venv's link leads to
    assert image.reused and image.source == {"ref": "the Python that the target names"}
    assert {name: importlib.metadata.version(name) for name in PACKAGES}.items() <= image.versions.items()


def test_a_path_below_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert local_python.brought(local("~/python")).python == str(python)


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 0\n", "#!/bin/sh\necho broken >&2; exit 1\n"])
def test_what_is_no_python_is_refused(tmp_path: Path, content: str | None) -> None:
    python = tmp_path / "python"
    if content is not None:
        python.write_text(content)
        python.chmod(0o755)
    with pytest.raises(BadInput, match=f"{python} cannot be run") as refusal:
        local_python.brought(local(str(python)))
    assert "python:" in refusal.value.problems[0].fix
    assert [problem.what for problem in local_python.faults(local(str(python)))] == [
        f"{python} cannot be run"
    ]


def test_it_is_named_by_a_whole_path(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("kind: local\npython: bin/python\n")
    with pytest.raises(BadInput, match=r"t\.yaml:2:1.*path from / or ~/"):
        load_target(file)
    file.write_text(f"kind: local\npython: {sys.executable}\n")
    assert load_target(file).python == sys.executable
