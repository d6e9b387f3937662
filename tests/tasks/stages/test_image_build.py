"""Images are built of pins with an engine that is played here: the same again, tags kept, nothing pushed that fails."""

from __future__ import annotations

import errno
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.registry import Registry
from tasks.cloud.resolve import Lock
from tasks.config.home import images_folder
from tasks.config.spec import SourceSpec
from tasks.stages.image_build import Wanted, build, ref_of
from tasks.stages.image_context import pip_settings
from tasks.stages.image_kinds import KINDS, Kind
from tests.cloud.fake_index import add_wheel, write_orbax_source
from tests.cloud.registry_store import Store, digest_of
from tests.tasks.cloud.test_registry import push_image
from tests.tasks.stages.engines import (
    Engine,
    address,
    engine,
    lock,
    locked,
    quiet,
    registry,
    store,
    wanted,
    wheels,
)
from tests.tasks.stages.test_build import git

ROOT = Path(__file__).parents[3]

__all__ = ["address", "engine", "lock", "locked", "registry", "store", "wanted", "wheels"]


def test_an_image_is_built_from_pins_with_hashes_and_pushed(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, store: Store
) -> None:
    made = build(wanted, registry, quiet, lock=locked)
    (tag, digest), *_ = store.repository("mine").tags.items()
    assert made.image == f"{wanted.repository}@{digest}" and made.tag == tag
    assert tag.startswith("released-cpu-0.9.0-") and not made.reused and made.builder == "buildah"
    assert made.versions["jax"] == "0.9.0" and made.versions["python"] == "3.11.2"
    assert engine.words() == ["build", "push"]
    (context,) = engine.contexts
    pins = context["requirements.txt"].decode()
    assert (
        "portpicker==1.6.0" in pins
        and "jax==0.9.0" in pins
        and "clu" not in pins
        and "--hash=sha256:" in pins
    )
    assert "runtime/smoke.py" in context and not any("__pycache__" in name for name in context)
    assert context["Dockerfile"].startswith(b"# What workers run")
    assert not list(images_folder().iterdir()), "what it is built from is gone"


def test_what_is_there_is_not_built_again_but_when_fresh(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, store: Store
) -> None:
    first = build(wanted, registry, quiet, lock=locked)
    again = build(wanted, registry, quiet, lock=locked)
    assert again.image == first.image and again.reused and engine.words() == ["build", "push"]
    fresh = build(replace(wanted, fresh=True), registry, quiet, lock=locked)
    assert fresh.tag != first.tag and "--no-cache" in engine.told[2]
    push_image(store, "base", "v1", (b"newer",), config={"config": {"Env": ["PYTHON_VERSION=3.11.2"]}})
    assert build(wanted, registry, quiet, lock=locked).tag != first.tag, "another base is another image"


def test_a_tag_that_is_another_image_is_not_written_over(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, store: Store
) -> None:
    there = push_image(store, "mine", "stable")
    chosen = replace(wanted, tag="stable")
    with pytest.raises(BadInput, match=r"mine:stable is there, and is another image, choose another --tag"):
        build(chosen, registry, quiet, lock=locked)
    assert store.repository("mine").tags == {"stable": there} and not engine.told
    build(replace(chosen, force=True), registry, quiet, lock=locked)
    assert store.repository("mine").tags["stable"] != there
    assert build(chosen, registry, quiet, lock=locked).reused  # now it is what would be made


def test_the_code_under_test_is_in_it_as_a_wheel(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, tmp_path: Path
) -> None:
    write_orbax_source(tmp_path / "orbax", "0.13.0")
    git(tmp_path / "orbax", "init", "--quiet", "--initial-branch=feat/x")
    git(tmp_path / "orbax", "add", "--all")
    git(tmp_path / "orbax", "commit", "--quiet", "--message", "one")
    source = SourceSpec(repo=str(tmp_path / "orbax"), branch="feat/x")
    made = build(replace(wanted, source=source), registry, quiet, lock=locked)
    assert made.tag.startswith("feat-x-") and made.source["ref"] == "refs/heads/feat/x"
    (context,) = engine.contexts
    wheel = "source/orbax_checkpoint-0.13.0-py3-none-any.whl"
    (tmp_path / "w.whl").write_bytes(context[wheel])
    assert "orbax/checkpoint/__init__.py" in zipfile.ZipFile(tmp_path / "w.whl").namelist()
    assert "orbax-checkpoint==" not in context["requirements.txt"].decode()
    assert engine.labels["org.opencontainers.image.revision"] == made.source["commit"]


def test_tensorflow_and_clu_come_only_when_asked_for(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock
) -> None:
    plain = build(wanted, registry, quiet, lock=locked)
    more = build(replace(wanted, orbax_classes=True), registry, quiet, lock=locked)
    assert b"clu==1.0" in engine.contexts[1]["requirements.txt"] and more.tag != plain.tag


def test_an_image_of_another_kind_holds_what_that_needs(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, wheels: Path, tmp_path: Path
) -> None:
    add_wheel(wheels, "tink", "1.16.1")
    (tmp_path / "requirements-proxy.in").write_text("# why\ntink>=1.16\n")
    proxy = build(replace(wanted, kind="proxy", device="tpu", smoke=True), registry, quiet, lock=locked)
    training = build(replace(wanted, kind="training", smoke=True), registry, quiet, lock=locked)
    first, second = engine.contexts
    pins = first["requirements.txt"].decode()
    assert re.findall(r"^[a-z-]+==", pins, re.MULTILINE) == ["tink=="] and "--hash=sha256:" in pins
    assert re.fullmatch(r"proxy-[0-9a-f]{12}", proxy.tag) and (proxy.device, proxy.source) == ("", {})
    assert proxy.versions == {"tink": "1.16.1", "python": "3.11.2"}
    assert first["Dockerfile"].endswith(b'CMD ["python", "-m", "runtime.gcs_proxy"]\n')
    assert b"dnsutils" not in first["Dockerfile"] and "runtime/gcs_proxy/serve.py" in first
    assert "jax==0.9.0" in second["requirements.txt"].decode() and training.tag.startswith(
        "training-released-cpu-0.9.0-"
    )
    assert second["Dockerfile"].endswith(b'CMD ["python", "-m", "runtime.training"]\n')
    tried = [argv[argv.index("--import") + 1 :] for argv in engine.told if "--import" in argv]
    assert [words[: words.index("--resolve")] for words in tried] == [
        list(KINDS[kind].imports) for kind in ("proxy", "training")
    ]


def test_an_image_with_the_proxy_in_it_is_tried_by_that_too(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, wheels: Path, tmp_path: Path
) -> None:
    add_wheel(wheels, "tink", "1.16.1")
    (tmp_path / "requirements-proxy.in").write_text("tink>=1.16\n")
    build(replace(wanted, proxy=True, smoke=True), registry, quiet, lock=locked)
    (argv,) = [argv for argv in engine.told if "--import" in argv]
    words = argv[argv.index("--import") + 1 : argv.index("--resolve")]
    assert words == [*KINDS["benchmark"].imports, *KINDS["proxy"].imports]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_is_tried_by_is_there(kind: Kind) -> None:
    ours = [name for name in KINDS[kind].imports if name.startswith("runtime.")]
    assert all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in ours)
    about = KINDS[kind]
    assert not about.command or (ROOT / about.command[-1].replace(".", "/") / "__main__.py").is_file()
    wanted = "".join(Lock().extra(name).read_text() for name in about.extras)
    assert about.computes or {"cryptography", "grpcio", "h11", "tink"} <= set(
        re.findall(r"^[a-z0-9-]+", wanted, re.MULTILINE)
    )


def test_another_jax_is_another_image(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock
) -> None:
    made = build(replace(wanted, source=SourceSpec(jax_version="0.10.0")), registry, quiet, lock=locked)
    assert made.tag.startswith("released-cpu-0.10.0-")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"repository": "gcr.io/P/i"}, "write it in small letters"),
        ({"repository": "gcr.io/p/i:tag"}, "has a tag"),
        ({"tag": "feat/x"}, "is not a tag"),
        ({"base": "{address}/nothing:v1"}, "there is no image"),
        ({"base": "{address}/bare:v1"}, "does not say which Python it has"),
        ({"python": "three"}, "is not a version of Python"),
        ({"source": SourceSpec(jax_version="0.8.8")}, "there is no JAX 0.8.8"),
        ({"source": SourceSpec(jax_version="nightly", jax_index="/wheels")}, "cannot be seen by a build"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_made(
    change: dict[str, Any],
    told: str,
    wanted: Wanted,
    registry: Registry,
    engine: Engine,
    locked: Lock,
    store: Store,
) -> None:
    push_image(store, "bare", "v1", config={"config": {}})
    host = wanted.base.partition("/")[0]
    if "base" in change:
        change = {"base": change["base"].format(address=host)}
    with pytest.raises(BadInput, match=told):
        build(replace(wanted, **change), registry, quiet, lock=locked)
    assert not engine.told and "mine" not in store.repositories


def test_a_python_can_be_told_where_the_base_does_not(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, store: Store
) -> None:
    push_image(store, "bare", "v1", config={"config": {}})
    bare = replace(wanted, base=wanted.base.replace("base", "bare"), python="3.11")
    assert build(bare, registry, quiet, lock=locked).versions["python"] == "3.11"


def test_what_does_not_work_is_not_pushed(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, store: Store
) -> None:
    engine.smoke.append({"step": "import orbax.checkpoint", "ok": False, "result": "ImportError: no"})
    engine.code = 3
    with pytest.raises(
        InfrastructureError, match=r"mine:.* does not work: import orbax.checkpoint: ImportError: no"
    ):
        build(replace(wanted, smoke=True), registry, quiet, lock=locked)
    assert engine.words() == ["build", "from", "run", "rm"] and "mine" not in store.repositories
    engine.smoke.pop()
    engine.code = 0
    build(replace(wanted, smoke=True), registry, quiet, lock=locked)
    assert engine.words()[4:] == ["build", "from", "run", "rm", "push"]
    build(replace(wanted, smoke=True), registry, quiet, lock=locked)
    assert engine.words()[9:] == ["from", "run", "rm"], "what is there already is tried out too"


def test_a_full_disk_is_told_before_anything_is_built(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", "/home/me/x")

    monkeypatch.setattr("tasks.stages.image_build.fill_context", full)
    told = r"built from: Disk quota exceeded \(/home/me/x\): free some space, or set SLICEBENCH_HOME"
    with pytest.raises(InfrastructureError, match=told):
        build(wanted, registry, quiet, lock=locked)
    assert not engine.told and not list(images_folder().iterdir())


def test_who_pushes_the_same_meanwhile_keeps_the_tag(
    wanted: Wanted,
    registry: Registry,
    engine: Engine,
    locked: Lock,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs: list[str] = []

    def build_while_others_push(_: Any, job: Any) -> None:
        config = {"config": {"Labels": dict(job.labels)}}
        theirs.append(push_image(store, "mine", str(job.target.tag), (b"theirs",), config=config))

    monkeypatch.setattr("tasks.stages.image_build.build_image", build_while_others_push)
    made = build(wanted, registry, quiet, lock=locked)
    assert made.image.endswith(theirs[0]) and made.reused and "push" not in engine.words()


def test_a_push_that_the_registry_does_not_know_of_is_no_image(
    wanted: Wanted, registry: Registry, engine: Engine, locked: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.stages.image_build.push_image", lambda *_: digest_of(b"nothing"))
    with pytest.raises(InfrastructureError, match="but the registry does not have that"):
        build(wanted, registry, quiet, lock=locked)


@pytest.mark.parametrize(
    ("about", "ref"),
    [
        ({"ref": "released"}, "released"),
        ({"ref": "refs/heads/feat/x"}, "feat/x"),
        ({"ref": "refs/tags/v1"}, "v1"),
        ({"ref": "refs/pull/123/head"}, "pr-123"),
        ({"ref": "working tree", "repo": "/home/me/orbax"}, "orbax"),
        ({"ref": "0123456789abcdef" * 2}, "0123456789ab"),
    ],
)
def test_a_tag_begins_with_what_was_asked_for(about: dict[str, str], ref: str) -> None:
    assert ref_of(about) == ref


def test_index_settings_reach_the_build_where_it_can_see_them() -> None:
    told = pip_settings(
        {"UV_DEFAULT_INDEX": "https://me:pw@host/simple", "UV_INDEX": "x=https://b/s file:///c"}
    )
    assert told == "[global]\nindex-url = https://me:pw@host/simple\nextra-index-url = https://b/s\n"
    assert pip_settings({"UV_FIND_LINKS": "/wheels", "HOME": "/nonexistent"}) is None
