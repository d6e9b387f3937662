"""Inputs that make xpk write manifests that nobody can read, or end in a traceback: right here, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.config.envfile import resolve_env
from tasks.targets.kube_check import checked
from tests.tasks.targets.kube_made import expanded, made, main_of, seen

KINDS: dict[str, dict[str, Any]] = {
    "tpu": {},
    "gpu": {"type": "a100-40gb-8", "nodes": 2, "slices": 1},
    "gpu with a daemon": {
        "type": "h100-80gb-8", "nodes": 2, "slices": 1, "gpu_networks": ["vpc1", "vpc2", "vpc3", "vpc4"],
    },
    "cpu": {"type": "n2-standard-32-2", "slices": 1},
}  # fmt: skip
INPUTS = {
    "--env with quotes": ({"CFG": '{"a":"b"}'}, ["true"]),
    "--env with a backslash": ({"RE": r"\d+"}, ["true"]),
    "--command of several lines": ({}, ["bash", "-c", "echo one\necho 'two'\n"]),
    "--command with quotes": ({}, ["python", "-c", 'print("it\'s")']),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", INPUTS)
def test_what_breaks_its_manifests_arrives_here(kind: str, given: str) -> None:
    env, command = INPUTS[given]
    jobset = made(KINDS[kind], env=env, command=command)
    assert checked(jobset) == []
    container = main_of(yaml.safe_load(yaml.safe_dump(jobset)))
    values = seen(container)
    assert env.items() <= values.items()
    assert [expanded(word, values) for word in container["command"]] == command


def test_an_env_file_with_quotes_means_what_docker_means(tmp_path: Path) -> None:
    (tmp_path / "env").write_text('B="quoted"\n')
    values, _ = resolve_env([], [str(tmp_path / "env")], {})
    assert seen(main_of(made(env=values)))["B"] == '"quoted"'


def test_a_variable_that_is_not_set_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("UNSET\n")
    assert resolve_env(["ABSENT"], [str(tmp_path / "env")], {})[0] == {}


def test_flags_for_xla_and_its_dump_go_together() -> None:
    jobset = made({"debug_dump": {"to": "gs://bucket/dumps"}, "env": {"XLA_FLAGS": "--xla_a=1"}})
    assert "--xla_a=1" in seen(main_of(jobset))["XLA_FLAGS"]
    assert "--xla_dump_to=" in seen(main_of(jobset))["XLA_FLAGS"]
