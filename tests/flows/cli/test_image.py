"""`slicebench image build`: what is typed becomes what is built; what cannot go together is refused first."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from runtime.contract.errors import BadInput
from tasks.cloud.resolve import Request
from tasks.stages import image_build
from tasks.stages.image import DEFAULT_BASE, Made
from tasks.stages.image_build import Wanted
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store
from tests.tasks.cloud.test_registry import push_image

ROOT = Path(__file__).parents[3]
FOR = ("3.12.1", "x86_64-manylinux_2_36")
"""Python and platform of the base that is used here."""
TARGET = ("--repository", "gcr.io/p/orbax-benchmarks")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """What was to be built; nothing is."""
    wanted: list[Wanted] = []

    def note(one: Wanted, *_: Any) -> Made:
        wanted.append(one)
        return Made(f"gcr.io/p/i@sha256:{'0' * 64}", "t")

    monkeypatch.setattr(image_build, "build", note)
    return wanted


# Rows of build_image.sh: there → the words here, and what they change.
ROWS: dict[str, tuple[tuple[str, ...], Callable[[Wanted], bool]]] = {
    "--project, --image": ((), lambda w: w.repository == "gcr.io/p/orbax-benchmarks"),
    "--tag": (("--tag", "v1"), lambda w: w.tag == "v1"),
    "no --tag: made": ((), lambda w: w.tag is None),
    "--pr": (("--pr", "12"), lambda w: w.source.pr == 12 and w.source.repo is not None),
    "--branch": (("--branch", "feat/x"), lambda w: w.source.branch == "feat/x"),
    "a commit": (("--commit", "abcdef1"), lambda w: w.source.commit == "abcdef1"),
    "--local-repo": (("--repo", "."), lambda w: w.source.repo == str(Path.cwd())),
    "--repo-url": (("--repo", "https://x.y/z"), lambda w: w.source.repo == "https://x.y/z"),
    "--jax-version": (("--jax-version", "0.10.1"), lambda w: w.source.jax_version == "0.10.1"),
    "--jax-version newest": (("--jax-version", "newest"), lambda w: w.source.jax_version == "newest"),
    "--jax-version nightly": (
        ("--jax-version", "nightly", "--jax-index", "https://x.y/simple"),
        lambda w: (w.source.jax_version, w.source.jax_index) == ("nightly", "https://x.y/simple"),
    ),
    "no --device": ((), lambda w: w.device == "tpu"),
    "--device gpu": (("--device", "gpu"), lambda w: w.device == "gpu"),
    "--device cpu": (("--device", "cpu"), lambda w: w.device == "cpu"),
    "no --base-image": ((), lambda w: w.base == DEFAULT_BASE),
    "--base-image": (("--base-image", "a.b/c"), lambda w: w.base == "a.b/c"),
    "--no-cache": (("--no-cache",), lambda w: w.fresh and not w.force),
    "TensorFlow and clu": (("--orbax-classes",), lambda w: w.orbax_classes),
    "docker alone there": (("--builder", "buildah"), lambda w: w.builder == "buildah"),
    "a tag that is there": (("--force",), lambda w: w.force),
    "a smoke test": (("--smoke",), lambda w: w.smoke),
    "no --kind": ((), lambda w: w.kind == "benchmark"),
    "--kind training": (
        ("--kind", "training", "--pr", "12"),
        lambda w: w.kind == "training" and w.source.pr == 12,
    ),
    "--kind proxy": (("--kind", "proxy"), lambda w: w.kind == "proxy"),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_the_build_script_has_its_place(
    row: str, built: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    words, holds = ROWS[row]
    assert main(["image", "build", *TARGET, *words]) == 0
    assert holds(built[0])
    assert capsys.readouterr().out == f"gcr.io/p/i@sha256:{'0' * 64}\n"


DOCUMENTED = {
    "--project": "--repository", "--image": "--repository", "--tag": "is never written over", "--pr N": "--pr N",
    "--branch B": "--branch B", "local path": "--repo PATH", "--repo-url": "--repo U", "a commit": "--commit",
    "--jax-version": "the same words", "--device": "the same", "--base-image": "taken by digest",
    "--no-cache": "--no-cache", "TensorFlow and clu": "--orbax-classes", "docker build": "--builder",
    "dnsutils": "deployments/images/Dockerfile", "fetched anew": "commit", "--base-docker-image": "--base-image",
    "--script-dir": "--script-dir",
}  # fmt: skip
"""Rows of build_image.sh, and of xpk's layering: there → what docs/migration.md says of it."""


@pytest.mark.parametrize("there", DOCUMENTED)
def test_docs_say_where_it_went(there: str) -> None:
    rows = [
        line.split("|")[1:3] for line in (ROOT / "docs/migration.md").read_text().splitlines() if "|" in line
    ]
    found = [here for old, here in rows if re.search(rf"(?<!-){re.escape(there)}\b", old)]
    assert any(DOCUMENTED[there] in here for here in found), found


def test_images_hold_what_the_build_script_put_in() -> None:
    recipe = (ROOT / "deployments/images/Dockerfile").read_text()
    assert {"dnsutils", "git", "ca-certificates"} <= set(recipe.split())
    assert "ARG BASE_IMAGE=python:3.12-slim-bookworm" in recipe and DEFAULT_BASE.endswith(
        "3.12-slim-bookworm"
    )
    wanted = "".join((ROOT / "runtime" / f"requirements{part}.in").read_text() for part in ("", "-image"))
    assert {"jax", "gcsfs", "orbax-checkpoint", "portpicker"} <= set(
        re.findall(r"^[a-z-]+", wanted, re.MULTILINE)
    )
    classes = (ROOT / "runtime" / "requirements-orbax-classes.in").read_text()
    assert "tensorflow" in classes and "clu" in classes and "tensorflow" not in wanted


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), Request(tpu=True, extras=("image",), elsewhere=FOR)),
        (("--device", "gpu"), Request(gpu=True, extras=("image",), elsewhere=FOR)),
        (("--device", "cpu"), Request(extras=("image",), elsewhere=FOR)),
        (("--kind", "training"), Request(tpu=True, elsewhere=FOR)),
        (("--jax-version", "newest"), Request(jax="newest", tpu=True, extras=("image",), elsewhere=FOR)),
        (("--orbax-classes",), Request(tpu=True, extras=("image", "orbax-classes"), elsewhere=FOR)),
        (("--python", "3.13.1"), Request(tpu=True, extras=("image",), elsewhere=("3.13.1", FOR[1]))),
    ],
)
def test_what_is_typed_changes_which_packages_are_looked_for(
    words: tuple[str, ...], asked: Request, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Request] = []

    def note(source: object, request: Request, *_: object) -> None:
        seen.append(request)
        raise BadInput("far enough")

    monkeypatch.setattr(image_build, "code_and_recipe", note)
    assert main(["image", "build", *TARGET, "--base-image", f"{address}/base:v1", *words]) == 2
    assert seen == [asked]


def test_where_it_goes_may_stand_in_the_environment(
    built: list[Wanted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_REPOSITORY", "gcr.io/p/j")
    assert main(["image", "build"]) == 0 and built[0].repository == "gcr.io/p/j"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--repository is missing"),
        ((*TARGET, "--pr", "1", "--branch", "x"), "branch and pr exclude each other"),
        ((*TARGET, "--branch", "a..b"), "is not a valid branch name"),
        ((*TARGET, "--jax-version", "new"), "is not a JAX version"),
        ((*TARGET, "--device", "npu"), "--device must be tpu or gpu or cpu, not npu"),
        ((*TARGET, "--script-dir", ".", "--docker-image", "a.b/c"), "--docker-image is taken as it is"),
        (("--docker-image", "a.b/c", "--base-image", "python:3.10"), "--docker-image is taken as it is"),
        (("--docker-image", "a.b/c", "--pr", "1"), "--pr would have no effect"),
        ((*TARGET, "--script-dir", ".", "--device", "tpu"), "--device would have no effect"),
        ((*TARGET, "--script-dir", ".", "--kind", "proxy"), "--kind would have no effect"),
        (("--docker-image", "a.b/c", "--kind", "training"), "--kind would have no effect"),
        (
            (*TARGET, "--kind", "proxy", "--pr", "1"),
            "neither JAX nor Orbax in it, and --pr would have no effect",
        ),
        ((*TARGET, "--kind", "proxy", "--device", "tpu"), "and --device would have no effect"),
        (
            (*TARGET, "--kind", "training", "--orbax-classes"),
            "no benchmarks in it, and --orbax-classes would",
        ),
        ((*TARGET, "--kind", "sidecar"), "--kind must be benchmark or training or proxy, not sidecar"),
        ((*TARGET, "--script-dir", "/nonexistent"), "is not a folder"),
        (("--repository", "gcr.io/p/i:v1", "--script-dir", "."), "has a tag"),
        (("--repository", "localhost:5001", "--script-dir", "."), "write localhost:5001/NAME"),
    ],
)
def test_what_is_wrong_is_refused_first(
    words: tuple[str, ...], told: str, built: list[Wanted], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "build", *words]) == 2
    assert told in capsys.readouterr().err
    assert not built


def test_a_build_that_is_asked_to_stop_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[bool] = []

    def stopped(*_: Any) -> Made:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            cleaned.append(True)
        raise AssertionError("unreachable")

    monkeypatch.setattr(image_build, "build", stopped)
    assert (main(["image", "build", *TARGET]), cleaned) == (130, [True])


@pytest.fixture
def store() -> Store:
    store = Store()
    push_image(store, "base", "v1")
    return store


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    with serve_registry(store) as address:
        yield address


def test_a_folder_goes_onto_a_base_without_an_engine(
    tmp_path: Path, address: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("print()")
    words = [
        "--script-dir",
        str(tmp_path),
        "--base-image",
        f"{address}/base:v1",
        "--repository",
        f"{address}/mine",
    ]
    assert main(["image", "build", *words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    (digest,) = store.repository("mine").tags.values()
    assert made["image"] == f"{address}/mine@{digest}" and made["reused"] is False


def test_a_given_image_is_resolved_and_every_call_can_be_seen(
    address: str, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_REPOSITORY", "gcr.io/p/i")  # of no effect here, nor in the way
    assert main(["image", "build", "--docker-image", f"{address}/base:v1", "--verbose"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{address}/base@{store.repository('base').tags['v1']}\n"
    assert f"registry: HEAD http://{address}/v2/base/manifests/v1: 200" in told.err
    assert main(["image", "build", "--docker-image", f"{address}/base:v9"]) == 2
