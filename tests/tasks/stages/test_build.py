"""The build stage: what was asked for is what runs, made once, and a suite never makes it anew."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.job import Deadlines
from runtime.contract.suite import CheckpointSpec, Point
from tasks.cloud import resolve
from tasks.cloud import venvs as venvs_module
from tasks.cloud.resolve import Lock
from tasks.cloud.storage import open_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.target import LocalTargetConfig
from tasks.stages.build import build, check_source, explain_build
from tasks.stages.context import Run
from tasks.targets.local import LocalTarget
from tasks.targets.types import Image
from tests.cloud.fake_index import add_jax, add_wheel, lock, wheels, write_orbax_source

__all__ = ["lock", "wheels"]


@pytest.fixture(autouse=True)
def holding_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venvs_module, "_held", {})


def point(generator: str = "native.Save", implementation: Any = "native") -> Point:
    return Point(0, "b", "k", generator, implementation, {}, None, CheckpointSpec())


def make_run(tmp_path: Path, source: SourceSpec | None = None, run_id: str = "r", **fields: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": run_id,
        "suite_name": "s",
        "suite_path": str(tmp_path / "suite.yaml"),
        "suite_text": "suite_name: s\n",
        "points": [point()],
        "num_repeats": 1,
        "target_name": "local",
        "target": LocalTargetConfig.model_validate({"kind": "local"}),
        "source": source or SourceSpec(),
        "output": str(tmp_path),
        "keep": "never",
        "deadlines": Deadlines(),
        **fields,
    }
    folder = open_folder(str(tmp_path / "runs" / run_id))
    return Run(RunSpec(**values), folder, LocalTarget(values["target"], tmp_path / "scratch"), print)


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(folder), *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "orbax"
    write_orbax_source(folder, "0.13.0")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "one")
    return folder


def test_the_released_orbax(lock: Lock, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    image = build(run, lock=lock)
    assert (image.kind, image.reused, image.versions["orbax-checkpoint"]) == ("venv", False, "0.12.8")
    assert image.source == {"ref": "released"}
    marker = run.marker("build")
    assert marker is not None and marker["outputs"]["image"] == dataclasses.asdict(image)
    assert build(make_run(tmp_path, run_id="other"), lock=lock).reused


def test_the_commit_recorded_is_the_commit_that_runs(lock: Lock, repo: Path, tmp_path: Path) -> None:
    source = SourceSpec(repo=str(repo), branch="main")
    first = build(make_run(tmp_path, source), lock=lock)
    assert first.source["commit"] == git(repo, "rev-parse", "main") and first.source["dirty"] == "false"
    write_orbax_source(repo, "0.13.1")
    dirty = build(make_run(tmp_path, SourceSpec(repo=str(repo)), "dirty"), lock=lock)
    assert dirty.versions["orbax-checkpoint"] == "0.13.1" and dirty.source["dirty"] == "true"
    assert dirty.source["commit"] == first.source["commit"] and dirty.source["tree"] != first.source["tree"]
    git(repo, "commit", "--quiet", "--all", "--message", "two")
    second = build(make_run(tmp_path, source, "second"), lock=lock)
    assert (
        second.versions["orbax-checkpoint"] == "0.13.1" and second.source["commit"] != first.source["commit"]
    )
    assert second.reference == dirty.reference and second.reused, "the same files are the same venv"
    shown = subprocess.run(
        [first.python, "-c", "import orbax.checkpoint as o; print(o.VERSION)"],
        check=True, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert shown.stdout.strip() == "0.13.0"


def test_a_resumed_run_keeps_its_commit(lock: Lock, repo: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path, SourceSpec(repo=str(repo), branch="main"))
    first = build(run, lock=lock)
    write_orbax_source(repo, "0.14.0")
    git(repo, "commit", "--quiet", "--all", "--message", "two")
    again = build(run, lock=lock)
    assert again == dataclasses.replace(first, reused=True)
    shutil.rmtree(Path(first.python).parents[1])
    rebuilt = build(run, lock=lock)
    assert rebuilt.reference == first.reference and rebuilt.source["commit"] == first.source["commit"]


def test_jax_by_number(lock: Lock, tmp_path: Path) -> None:
    image = build(make_run(tmp_path, SourceSpec(jax_version="0.10.0")), lock=lock)
    assert image.versions["jax"] == image.versions["jaxlib"] == "0.10.0"


def test_nothing_is_made_for_a_version_that_does_not_exist(
    lock: Lock, tmp_path: Path, clean_environment: Path
) -> None:
    run = make_run(tmp_path, SourceSpec(jax_version="7.7.7"))
    with pytest.raises(BadInput, match=r"there is no JAX 7\.7\.7"):
        build(run, lock=lock)
    assert run.marker("build") is None
    assert not (clean_environment / "venvs").exists()


def test_a_source_is_looked_up_without_building(
    lock: Lock, repo: Path, tmp_path: Path, clean_environment: Path
) -> None:
    check_source(make_run(tmp_path).spec, lock=lock)
    assert list(clean_environment.iterdir()) == [], "nothing was named, so nobody is asked"
    check_source(make_run(tmp_path, SourceSpec(repo=str(repo), branch="main")).spec, lock=lock)
    check_source(make_run(tmp_path, SourceSpec(jax_version="0.10.0")).spec, lock=lock)
    with pytest.raises(BadInput, match="no branch"):
        check_source(make_run(tmp_path, SourceSpec(repo=str(repo), branch="mian")).spec, lock=lock)
    with pytest.raises(BadInput, match=r"there is no JAX 7\.7\.7"):
        check_source(make_run(tmp_path, SourceSpec(jax_version="7.7.7")).spec, lock=lock)
    assert not (clean_environment / "venvs").exists()


def test_a_gpu_target_gets_its_plugin(lock: Lock, tmp_path: Path, clean_environment: Path) -> None:
    run = make_run(tmp_path, target=LocalTargetConfig.model_validate({"kind": "local", "platform": "gpu"}))
    build(run, lock=lock)
    packages = json.loads(next((clean_environment / "venvs").glob("*/complete.json")).read_text())["packages"]
    assert packages["jax-cuda12-plugin"] == "0.9.0"


def test_plan_says_that_a_newer_jax_exists(
    lock: Lock, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "_NEWER_PYTHON", "3.99")
    add_jax(wheels, "0.12.0", python=">=3.99")
    (note,) = explain_build(make_run(tmp_path, SourceSpec(jax_version="newest")).spec, lock=lock).notes
    assert note.startswith("JAX 0.12.0 exists, for a newer Python than this")


def test_plan_says_what_would_be_made_and_why(
    lock: Lock, repo: Path, wheels: Path, tmp_path: Path, clean_environment: Path
) -> None:
    released = make_run(tmp_path).spec
    plan = explain_build(released, lock=lock)
    assert plan.rebuild and str(plan) == f"a new venv {plan.key} (nothing has been built here yet)"
    assert list(clean_environment.iterdir()) == [], "explaining makes nothing"
    build(make_run(tmp_path), lock=lock)
    assert explain_build(released, lock=lock) == dataclasses.replace(plan, rebuild=False, changed=())
    newer = dataclasses.replace(released, source=SourceSpec(jax_version="0.10.0"))
    changed = explain_build(newer, lock=lock)
    assert changed.changed == ("jax: locked → 0.10.0",)
    assert str(changed) == f"a new venv {changed.key} (jax: locked → 0.10.0)"

    branch = SourceSpec(repo=str(repo), branch="main")
    from_source = dataclasses.replace(released, source=branch)
    unseen = explain_build(from_source, lock=lock)
    assert str(unseen) == "a new venv (these source files have not been built here yet)"
    build(make_run(tmp_path, branch, "b"), lock=lock)
    assert not explain_build(from_source, lock=lock).rebuild
    local = dataclasses.replace(released, source=SourceSpec(repo=str(repo)))
    assert not explain_build(local, lock=lock).rebuild
    (repo / "checkpoint" / "more.py").write_text("")
    assert explain_build(local, lock=lock).rebuild
    with pytest.raises(BadInput, match="no branch"):
        explain_build(
            dataclasses.replace(released, source=SourceSpec(repo=str(repo), branch="mian")), lock=lock
        )


def test_a_changed_suite_builds_nothing(lock: Lock, tmp_path: Path) -> None:
    build(make_run(tmp_path), lock=lock)
    other = make_run(
        tmp_path, run_id="other", suite_text="suite_name: t\n", points=[point(), point()], env={"A": "1"}
    )
    assert not explain_build(other.spec, lock=lock).rebuild
    assert build(other, lock=lock).reused


def test_orbaxs_own_classes_bring_what_they_need(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_wheel(wheels, "clu", "0.1")
    (tmp_path / "requirements-orbax-classes.in").write_text("clu\n")
    run = make_run(tmp_path, points=[point("orbax.checkpoint.a.Own", "orbax")])
    with pytest.raises(
        BadInput, match=r"generator orbax\.checkpoint\.a\.Own cannot be imported.*no class Own"
    ):
        build(run, lock=lock)
    plan = explain_build(run.spec, lock=lock)
    assert not plan.rebuild and run.marker("build") is None


def test_a_python_that_the_target_brings_is_taken_and_nothing_else_can_be_measured(tmp_path: Path) -> None:
    class Bringing(LocalTarget):
        def image(self) -> Image:
            return Image("venv", "/opt/python on h1", "/opt/python", {}, {"jax": "1.2.3"}, True)

    said: list[str] = []
    run = replace(
        make_run(tmp_path), target=Bringing(LocalTargetConfig(kind="local"), tmp_path), say=said.append
    )
    assert build(run).python == "/opt/python"
    assert said == ["/opt/python on h1: jax 1.2.3"]
    assert run.marker("build") is not None
    for source in (SourceSpec(repo="/some/tree"), SourceSpec(jax_version="newest")):
        with pytest.raises(BadInput, match="names a Python to be used"):
            build(replace(run, spec=replace(run.spec, source=source)))


def test_a_python_here_runs_what_it_holds(tmp_path: Path, clean_environment: Path) -> None:
    config = LocalTargetConfig(kind="local", python=sys.executable)
    run = make_run(tmp_path, target=config)
    image = build(run)
    assert image.python == sys.executable and image.versions["jax"] == importlib.metadata.version("jax")
    assert not (clean_environment / "venvs").exists()
    plan = explain_build(run.spec)
    assert str(plan) == f"nothing new: what is installed in {sys.executable}"
    with pytest.raises(BadInput, match=r"generator nowhere\.Mine cannot be imported"):
        build(make_run(tmp_path, target=config, points=[point("nowhere.Mine", "user")]))
    for source in (SourceSpec(repo="/some/tree"), SourceSpec(jax_version="newest")):
        asking = replace(run.spec, source=source)
        for refuse in (check_source, explain_build):
            with pytest.raises(BadInput, match="names a Python to be used"):
                refuse(asking)


def test_plan_names_the_class_for_whose_sake_more_is_built(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_wheel(wheels, "clu", "0.1")
    (tmp_path / "requirements-orbax-classes.in").write_text("clu\n")
    build(make_run(tmp_path), lock=lock)
    plan = explain_build(make_run(tmp_path, points=[point("elsewhere.Mine", "user")]).spec, lock=lock)
    assert plan.changed == (
        "extras: none → orbax-classes",
        "the suite's elsewhere.Mine may need what Orbax's own benchmarks need",
    )
