"""What hosts make their venvs of is packed once, and a run keeps what it was packed with."""

from __future__ import annotations

import json
import platform
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.resolve import Lock
from tasks.cloud.venvs import python_identity
from tasks.config.spec import SourceSpec
from tasks.stages.context import Run
from tasks.stages.pack import pack
from tasks.targets.types import Interpreter
from tests.cloud.fake_index import add_jax, lock, wheels, write_orbax_source
from tests.tasks.stages.test_build import git, make_run

__all__ = ["lock", "wheels"]

HERE = Interpreter(platform.python_version(), sysconfig.get_platform(), python_identity())


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    folder = tmp_path / "orbax"
    write_orbax_source(folder, "0.13.0")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "one")
    return folder


def rewrite_marker(run: Run, change: Any) -> None:
    """Changes what the run's folder says of its build."""
    marker = run.marker("build")
    assert marker is not None
    change(marker["outputs"])
    run.folder.write("stages/build.json", json.dumps(marker).encode())


def test_what_was_packed_is_found_again_and_a_run_keeps_its_own(
    lock: Lock, branch: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path, SourceSpec(repo=str(branch), branch="main"))
    first = pack(run, HERE, lock)
    assert not first.reused and first.versions["python"] == platform.python_version()
    assert pack(make_run(tmp_path, run.spec.source, "other"), HERE, lock).reference == first.reference
    write_orbax_source(branch, "0.13.1")
    git(branch, "commit", "--quiet", "--all", "--message", "two")
    assert pack(run, HERE, lock) == replace(first, reused=True)
    other_python = replace(HERE, identity=f"{HERE.identity}-another", version=HERE.version)
    again = pack(run, other_python, lock)
    assert again.reference != first.reference, "a venv of another Python is another venv"
    assert again.source["commit"] == first.source["commit"], "but of the same commit"


def test_a_marker_of_a_newer_version_is_read_and_a_damaged_one_told(lock: Lock, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    first = pack(run, HERE, lock)
    rewrite_marker(run, lambda outputs: outputs["image"].update(layers=["of a later day"]))
    assert pack(run, HERE, lock) == replace(first, reused=True)
    rewrite_marker(run, lambda outputs: outputs["image"].pop("reference"))
    with pytest.raises(InfrastructureError, match=r"stages/build\.json is damaged .*--from build"):
        pack(run, HERE, lock)


def test_an_index_that_hosts_do_not_see_is_refused(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_jax(wheels, "0.10.9")
    source = SourceSpec(jax_version="0.10.9", jax_index=str(wheels))
    with pytest.raises(BadInput, match="is a folder of this machine") as refused:
        pack(make_run(tmp_path, source), HERE, lock)
    assert "URL" in str(refused.value)
