"""The stage *build* where containers run: an image of the run's source, in the target's repository, made once."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud import image_builders
from tasks.cloud.registry_errors import Unavailable
from tasks.cloud.resolve import Lock
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec, SourceSpec
from tasks.stages.build import build, check_source, explain_build
from tasks.stages.context import Run
from tasks.targets.gke import GkeTarget
from tests.cloud.fake_index import add_jax, lock, wheels  # noqa: F401
from tests.cloud.registry_store import Store
from tests.tasks.stages.engines import Engine, address, engine, locked, store  # noqa: F401
from tests.tasks.stages.test_build import make_run

NOTHING_ASKED = SourceSpec()


def config(address: str, **more: Any) -> GkeTargetConfig:
    made = {"repository": f"{address}/mine", "base": f"{address}/base:v1", "builder": "buildah"}
    return GkeTargetConfig.model_validate(
        {"kind": "gke", "context": "kind", "type": "cpu", "build": {**made, **more}}
    )


def a_run(tmp_path: Path, target: GkeTargetConfig, run_id: str = "r") -> Run:
    run = make_run(tmp_path, run_id=run_id, target=target)
    return replace(run, target=GkeTarget(target))


def test_it_is_built_once_and_both_names_are_written_down(
    address: str, engine: Engine, locked: Lock, store: Store, tmp_path: Path
) -> None:
    run = a_run(tmp_path, config(address))
    image = build(run, lock=locked)
    [(tag, digest)] = store.repository("mine").tags.items()
    assert (image.kind, image.reference, image.python) == ("container", f"{address}/mine@{digest}", "python")
    assert image.source["image"] == f"{address}/mine:{tag}" and not image.reused
    assert tag.startswith("released-cpu-0.9.0-")
    marker = run.marker("build")
    assert marker is not None and marker["outputs"]["key"] == tag
    did = engine.words()
    assert did[0] == "build" and did[-1] == "push" and "run" in did, "tried out before it is pushed"
    other = build(a_run(tmp_path, config(address), "other"), lock=locked)
    assert other.reused and other.reference == image.reference and other.source == image.source
    assert build(run, lock=locked) == replace(image, reused=True)
    assert engine.words() == did


def test_one_that_does_not_work_is_not_pushed(
    address: str, engine: Engine, locked: Lock, store: Store, tmp_path: Path
) -> None:
    engine.code = 1
    engine.smoke = [{"step": "import jax", "ok": False, "result": "No module named 'jax'"}]
    run = a_run(tmp_path, config(address))
    with pytest.raises(InfrastructureError, match="import jax: No module named 'jax'"):
        build(run, lock=locked)
    assert store.repository("mine").tags == {} and run.marker("build") is None
    engine.code, engine.smoke = 0, [{"step": "import jax", "ok": True, "result": "0.9.0"}]
    assert not build(run, lock=locked).reused


def test_who_dies_after_the_push_finds_it_again(
    address: str, engine: Engine, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, config(address))

    def die(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "mark", die)
        with pytest.raises(KeyboardInterrupt):
            build(run, lock=locked)
    did = engine.words()
    assert run.marker("build") is None and did[-1] == "push"
    assert build(run, lock=locked).reused and engine.words() == did


def test_an_image_that_the_registry_lost_is_built_again(
    address: str, engine: Engine, locked: Lock, store: Store, tmp_path: Path
) -> None:
    run = a_run(tmp_path, config(address))
    first = build(run, lock=locked)
    store.repository("mine").tags.clear()
    store.repository("mine").manifests.clear()
    again = build(run, lock=locked)
    assert again.source["image"] == first.source["image"] and not again.reused


PATHWAYS = {"server_image": "r/server:jax_0.10.0", "proxy_image": "r/proxy_server:jax_0.10.0"}
SIDECAR = {**PATHWAYS, "colocated_python_image": "r/sidecar:python_3.12-jax_0.10.0"}


@pytest.mark.parametrize("make", [explain_build, lambda spec, lock: build_of(spec, lock)])
def test_an_image_of_another_jax_than_pathways_is_refused_before_it_is_built(
    make: Callable[..., object], address: str, engine: Engine, locked: Lock, wheels: Path, tmp_path: Path
) -> None:
    add_jax(wheels, "0.9.0", tpu="0.1")
    target = config(address).model_dump(exclude_unset=True)
    target |= {"type": "v5litepod-16", "slices": 2, "pathways": PATHWAYS}
    spec = make_run(tmp_path, target=GkeTargetConfig.model_validate(target)).spec
    with pytest.raises(BadInput, match=r"server:jax_0.10.0 has JAX 0.10.0, and the program JAX 0.9.0"):
        make(spec, lock=locked)
    assert not engine.told


def test_plan_names_the_image_that_is_built_then_and_says_when_it_is_there(
    address: str, engine: Engine, locked: Lock, store: Store, tmp_path: Path
) -> None:
    run = a_run(tmp_path, config(address))
    plan = explain_build(run.spec, lock=locked)
    assert plan.rebuild and str(plan) == f"a new image {plan.key} (into {address}/mine)"
    assert "mine" not in store.repositories and not engine.told, "a plan makes nothing"
    assert plan.notes == ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.which", lambda name, path=None: None if name in image_builders.NAMES else name)
        [note] = explain_build(run.spec, lock=locked).notes
    assert note.startswith(
        "on this machine it could not be: no image can be built here: buildah is not installed"
    )
    build(run, lock=locked)
    [tag] = store.repository("mine").tags
    assert plan.key == tag
    assert str(explain_build(run.spec, lock=locked)) == f"nothing new: image {tag} is there already"


def test_plan_of_an_image_that_is_given_says_which_it_is_now(
    address: str, store: Store, tmp_path: Path
) -> None:
    digest = store.repository("base").tags["v1"]
    assert str(explain_build(given(f"{address}/base:v1", tmp_path))) == (
        f"nothing new: what is in {address}/base@{digest}"
    )
    with pytest.raises(BadInput, match="there is no image .*, there are: v1"):
        explain_build(given(f"{address}/base:v2", tmp_path))
    asked = len(store.asked)
    taken = explain_build(given(f"{address}/base@{digest}", tmp_path))
    assert digest in str(taken) and len(store.asked) == asked


def given(image: str, tmp_path: Path, source: SourceSpec = NOTHING_ASKED) -> RunSpec:
    target = GkeTargetConfig.model_validate({"kind": "gke", "context": "kind", "type": "cpu", "image": image})
    return make_run(tmp_path, source, target=target).spec


@pytest.mark.parametrize("refuse", [explain_build, check_source])
def test_an_image_that_is_given_has_no_other_code(
    refuse: Callable[[RunSpec], object], tmp_path: Path
) -> None:
    spec = given("gcr.io/p/i:v1", tmp_path, SourceSpec(jax_version="newest"))
    with pytest.raises(BadInput, match=r"--jax-version asks for an image .* write build: in place of image:"):
        refuse(spec)


@pytest.mark.parametrize("how", [{"build": True}, {"build": False}])
def test_plan_goes_on_without_a_registry(
    how: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise Unavailable("cannot GET http://gone/v2/: connection refused")

    monkeypatch.setattr("tasks.cloud.registry.Registry.find", down)
    monkeypatch.setattr("tasks.cloud.registry.Registry.image", down)
    spec = (
        a_run(tmp_path, config("localhost:1")).spec if how["build"] else given("localhost:1/i:v1", tmp_path)
    )
    plan = explain_build(spec)
    assert plan.key is None and plan.rebuild is how["build"]
    assert "not known: cannot GET http://gone" in plan.notes[0]


def test_two_ways_at_once_are_refused_and_none_as_well(address: str, tmp_path: Path) -> None:
    target = config(address)
    with pytest.raises(ValueError, match="leave one out"):
        GkeTargetConfig.model_validate({**target.model_dump(exclude_unset=True), "image": "a:b"})
    neither = GkeTargetConfig.model_validate({"kind": "gke", "context": "kind", "type": "cpu"})
    with pytest.raises(BadInput, match="names no image, nor a repository"):
        build(a_run(tmp_path, neither))


# ---------------------------------------------------------------------- a folder on a base


def layered(address: str, folder: Path, **more: Any) -> GkeTargetConfig:
    made = {"repository": f"{address}/mine", "base": f"{address}/base:v1", "script_dir": str(folder), **more}
    return GkeTargetConfig.model_validate({"kind": "gke", "context": "kind", "type": "cpu", "build": made})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text("A = 1")
    return tmp_path / "code"


def test_a_folder_is_put_on_a_base_without_an_engine_and_once(
    address: str, engine: Engine, store: Store, folder: Path, tmp_path: Path
) -> None:
    run = a_run(tmp_path, layered(address, folder))
    plan = explain_build(run.spec)
    assert str(plan) == f"a new image {plan.key} (into {address}/mine)" and "mine" not in store.repositories
    image = build(run)
    assert store.repository("mine").tags == {plan.key: image.reference.partition("@")[2]} and not image.reused
    assert image.source["image"] == f"{address}/mine:{plan.key}" and image.source["folder"] == str(folder)
    assert image.source["base"] == f"{address}/base@{store.repository('base').tags['v1']}"
    (folder / "mine.py").write_text("A = 2")
    assert build(run).reused, "a run keeps what it was built with"
    (folder / "mine.py").write_text("A = 1")
    assert str(explain_build(run.spec)) == f"nothing new: image {plan.key} is there already"
    other = build(a_run(tmp_path, layered(address, folder), "other"))
    assert other.reused and other.reference == image.reference
    assert not engine.told


@pytest.mark.parametrize("refuse", [explain_build, check_source, lambda spec: build_of(spec)])
def test_its_code_is_the_bases(refuse: Callable[[RunSpec], object], folder: Path, tmp_path: Path) -> None:
    target = layered("gcr.io/p", folder)
    spec = make_run(tmp_path, SourceSpec(jax_version="newest"), target=target).spec
    with pytest.raises(
        BadInput, match=r"names the base of one to be used, take script_dir: out of the target"
    ):
        refuse(spec)


def build_of(spec: RunSpec, lock: Lock | None = None) -> object:
    assert isinstance(spec.target, GkeTargetConfig)
    run = make_run(Path(spec.output), spec.source, target=spec.target)
    return build(replace(run, target=GkeTarget(spec.target)), lock=lock)


@pytest.mark.parametrize("make", [explain_build, lambda spec: build_of(spec)])
def test_a_folder_on_a_base_of_another_python_than_pathways_is_refused_before_it_is_pushed(
    make: Callable[[RunSpec], object], address: str, store: Store, folder: Path, tmp_path: Path
) -> None:
    target = layered(address, folder).model_dump(exclude_unset=True)
    target |= {"type": "v5litepod-16", "slices": 2, "pathways": SIDECAR}
    spec = make_run(tmp_path, target=GkeTargetConfig.model_validate(target)).spec
    with pytest.raises(BadInput, match=r"has Python 3.12, and the program Python 3.11"):
        make(spec)
    assert "mine" not in store.repositories


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"base": None}, "name it, with base:"),
        ({"builder": "docker"}, "builder: is for one"),
        ({"python": "3.12"}, "python: is for one"),
        ({"smoke": False}, "smoke: is for one"),
        ({"script_dir": ""}, "at least 1 character"),
    ],
)
def test_a_folder_excludes_what_is_for_engines(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        layered("gcr.io/p", Path("x"), **fields)


@pytest.mark.parametrize(("folder", "told"), [("/nowhere", "is not a folder"), ("/", "keys and passwords")])
def test_a_folder_that_nobody_means_is_refused_by_plans(folder: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=told):
        explain_build(a_run(tmp_path, layered("gcr.io/p", Path(folder))).spec)


@pytest.mark.parametrize("of_a_folder", [False, True])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gcr.io/p/i:v1", "build.repository .* has a tag, write gcr.io/p/i, and leave the tag to"),
        ("localhost:5001", "build.repository .* names no repository in it"),
        ("P/i", "small"),
    ],
)
def test_a_repository_that_is_none_is_refused_by_plans(
    name: str, told: str, of_a_folder: bool, folder: Path, tmp_path: Path
) -> None:
    target = layered("x", folder, repository=name) if of_a_folder else config("x", repository=name)
    with pytest.raises(BadInput, match=told):
        explain_build(a_run(tmp_path, target).spec)
