"""Venvs are made once, are what they say, and half of one is never taken for whole."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud import venvs as module
from tasks.cloud.command import Finished
from tasks.cloud.resolve import Lock
from tasks.cloud.uv import _failure, uv_environment
from tasks.cloud.venvs import Recipe, Venv, adopt_venv, all_venvs, make_venv, prune
from tests.cloud.fake_index import add_wheel, lock, wheels, write_orbax_source
from tests.waiting import PATIENCE_S, until

__all__ = ["lock", "wheels"]


@pytest.fixture
def recipe(lock: Lock) -> Recipe:
    return Recipe(lock.pins.read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "venvs"


@pytest.fixture(autouse=True)
def holding_nothing(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    held: dict[Path, int] = {}
    monkeypatch.setattr(module, "_held", held)
    return held


def make(recipe: Recipe, folder: Path, said: list[str] | None = None) -> tuple[Venv, bool]:
    return make_venv(
        recipe, folder, say=said.append if said is not None else print, about={"ref": "released"}
    )


def test_made_once_and_reused(recipe: Recipe, folder: Path) -> None:
    venv, reused = make(recipe, folder)
    assert not reused
    assert venv.versions["jax"] == "0.9.0" and venv.versions["orbax-checkpoint"] == "0.12.8"
    imported = subprocess.run(
        [venv.python, "-c", "import jax, sys; print(jax.VERSION, sys.prefix)"],
        check=True, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert imported.stdout.split() == ["0.9.0", str(folder / venv.key)]
    again, reused = make(recipe, folder)
    assert reused and again == venv
    assert adopt_venv(venv.key, folder) == venv and all_venvs(folder) == [venv]


def test_every_input_is_in_the_key(recipe: Recipe) -> None:
    keys = {
        recipe.key(),
        Recipe(recipe.requirements + "#").key(),
        Recipe(recipe.requirements, digest="x").key(),
        Recipe(recipe.requirements, python="CPython 3.99").key(),
    }
    assert len(keys) == 4


def test_half_a_venv_is_made_anew(recipe: Recipe, folder: Path) -> None:
    (folder / recipe.key() / "bin").mkdir(parents=True)
    (folder / recipe.key() / "bin" / "python").symlink_to("/bin/true")
    assert adopt_venv(recipe.key(), folder) is None
    venv, reused = make(recipe, folder)
    assert not reused and venv.versions["jax"] == "0.9.0"


@pytest.mark.parametrize("damage", ["changed", "missing", "installed", "python"])
def test_a_venv_that_was_tampered_with_is_made_anew(recipe: Recipe, folder: Path, damage: str) -> None:
    venv, _ = make(recipe, folder)
    site = next((folder / venv.key).glob("lib/python*/site-packages"))
    code = site / "orbax" / "checkpoint" / "a.py"
    if damage == "python":
        (folder / venv.key / "bin" / "python").unlink()
    elif damage == "installed":
        (site / "other-1.dist-info").mkdir()
        (site / "other-1.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: other\nVersion: 1\n"
        )
    else:
        code.unlink()  # a hard link into uv's cache: not to be written through
    if damage == "changed":
        code.write_text("SPEED = 'ludicrous'\n")
    assert adopt_venv(venv.key, folder) is None
    said: list[str] = []
    again, reused = make(recipe, folder, said)
    assert not reused and any("made anew" in line for line in said)
    assert code.read_text() == "" and again.packages == venv.packages


def test_a_full_disk_leaves_nothing(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(python: str) -> dict[str, str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "x"))

    monkeypatch.setattr(module, "_packages", full)
    with pytest.raises(InfrastructureError, match=r"No space left on device; free some space"):
        make(recipe, folder)
    assert not (folder / recipe.key()).exists()
    monkeypatch.undo()


def test_a_wrong_hash_is_refused(recipe: Recipe, wheels: Path, folder: Path) -> None:
    add_wheel(wheels, "numpy", "2.0", files={"numpy.py": "import evil\n"})
    with pytest.raises(InfrastructureError, match=r"(?i)hash"):
        make(recipe, folder)
    assert all_venvs(folder) == [] and not (folder / recipe.key()).exists()


def _contend(recipe: Recipe, folder: str, start: Barrier, results: multiprocessing.Queue[object]) -> None:
    said: list[str] = []
    start.wait()
    _, reused = make_venv(recipe, Path(folder), say=said.append, about={})
    results.put((reused, said))


def test_two_that_want_the_same_build_once(recipe: Recipe, folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_contend, args=(recipe, str(folder), start, results)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=PATIENCE_S) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(reused for reused, _ in outcomes) == [False, True, True]
    waited = [line for reused, said in outcomes if reused for line in said]
    assert any(line.startswith("waiting for process") and "building venv" in line for line in waited)


def _build_quietly(recipe: Recipe, folder: str) -> None:
    make_venv(recipe, Path(folder), say=lambda line: None, about={})


def test_a_killed_builder_leaves_nothing_in_the_way(lock: Lock, folder: Path, tmp_path: Path) -> None:
    write_orbax_source(tmp_path / "tree", "0.13.0")
    backend, begun, go = tmp_path / "tree" / "checkpoint" / "backend.py", tmp_path / "begun", tmp_path / "go"
    stall = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n"
    stall += f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)\n"
    backend.write_text(stall + backend.read_text())
    recipe = Recipe("", source=backend.parent, digest="d")
    builder = multiprocessing.get_context("fork").Process(target=_build_quietly, args=(recipe, str(folder)))
    builder.start()
    until(lambda: begun.exists() or not builder.is_alive())
    assert builder.is_alive()
    builder.kill()
    builder.join()
    assert (folder / recipe.key()).is_dir() and all_venvs(folder) == []
    go.touch()
    venv, reused = make(recipe, folder)
    assert not reused and venv.versions["orbax-checkpoint"] == "0.13.0"


def test_pruning_spares_the_last_used_and_those_in_use(
    recipe: Recipe, folder: Path, holding_nothing: dict[Path, int]
) -> None:
    recipes = [recipe, *(Recipe(f"{recipe.requirements}# {n}\n") for n in range(3))]
    made = [make(each, folder)[0] for each in recipes]
    for n, venv in enumerate(made):
        os.utime(folder / venv.key / "complete.json", (n, n))
    (folder / "half").mkdir()
    assert prune(folder, keep=1, say=print) == ["half"], "all the others are in use by this process"
    for venv in made[1:]:
        os.close(holding_nothing.pop(folder / venv.key))
    assert sorted(prune(folder, keep=1, say=print)) == sorted(venv.key for venv in made[1:3])
    assert {venv.key for venv in all_venvs(folder)} == {made[0].key, made[3].key}


def test_source_is_built_as_it_is_without_secrets(
    lock: Lock, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "UV_INDEX_CORP_PASSWORD", "PYTHONPATH", "GIT_DIR"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("UV_INDEX_STRATEGY", "first-index")
    monkeypatch.setenv("UV_INDEX", "corp=https://me:hush@127.0.0.1:9/simple")
    write_orbax_source(tmp_path / "tree", "0.13.0")
    source = tmp_path / "tree" / "checkpoint"
    before = sorted(path.name for path in source.iterdir())
    released = [line for line in lock.pins.read_text().splitlines() if not line.startswith("orbax")]
    venv, _ = make(Recipe("\n".join(released), source=source, digest="d"), folder)
    assert venv.versions["orbax-checkpoint"] == "0.13.0"
    seen = next((folder / venv.key).glob("lib/*/site-packages/orbax/checkpoint/built_with.json")).read_text()
    assert "hush" not in seen and "PATH" in seen
    assert sorted(path.name for path in source.iterdir()) == before
    assert not (folder / venv.key / ".build").exists()


def test_a_source_that_is_not_orbax(lock: Lock, folder: Path, tmp_path: Path) -> None:
    write_orbax_source(tmp_path / "tree", "1.0")
    file = tmp_path / "tree" / "checkpoint" / "pyproject.toml"
    file.write_text(file.read_text().replace("orbax-checkpoint", "something-else"))
    with pytest.raises(BadInput, match=r"builds something_else-1\.0.*not orbax-checkpoint"):
        make(Recipe("", source=tmp_path / "tree" / "checkpoint", digest="d"), folder)


def test_a_backend_that_fails_is_told_with_its_own_words(folder: Path, lock: Lock, tmp_path: Path) -> None:
    write_orbax_source(tmp_path / "tree", "1.0")
    backend = tmp_path / "tree" / "checkpoint" / "backend.py"
    backend.write_text(backend.read_text() + "\nraise RuntimeError('cannot find the compiler')\n")
    with pytest.raises(BadInput, match=r"does not build.*cannot find the compiler"):
        make(Recipe("", source=tmp_path / "tree" / "checkpoint", digest="d"), folder)
    assert not (folder / Recipe("", digest="d").key()).exists()


@pytest.mark.parametrize(
    ("errors", "kind", "told"),
    [
        (
            "error: failed to write: No space left on device (os error 28)",
            InfrastructureError,
            "disk is full",
        ),
        (
            "error: Failed to fetch: `https://me:hush@host/simple/jax/`",
            InfrastructureError,
            "index cannot be",
        ),
        (
            "error: No solution found when resolving\n cause: Because a\n conflicts",
            BadInput,
            "Because a conflicts",
        ),
        (
            "error: Failed to bytecode-compile installed packages\n  cause: Bytecode timed out (60s)",
            InfrastructureError,
            "too busy",
        ),
        ("", InfrastructureError, "exit code 2"),
    ],
)
def test_uvs_failures_are_told_by_what_to_do(errors: str, kind: type[Exception], told: str) -> None:
    error = _failure(["pip", "install"], Finished(2, b"", errors))
    assert type(error) is kind and told in str(error) and "hush" not in str(error)


def test_pips_index_holds_for_uv_unless_uv_has_its_own(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[global]\nindex-url = https://mirror/simple\nextra-index-url =\n  https://a/s\n  https://b/s\n"
    )
    home = {"HOME": str(tmp_path)}
    env = uv_environment(home)
    assert env["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert env["UV_INDEX"] == "https://a/s https://b/s" and env["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert uv_environment(home | {"PIP_INDEX_URL": "https://p/s"})["UV_DEFAULT_INDEX"] == "https://p/s"
    assert "UV_INDEX" not in uv_environment(home | {"UV_DEFAULT_INDEX": "https://u/s"})
    assert "UV_DEFAULT_INDEX" not in uv_environment(home | {"PIP_CONFIG_FILE": "/dev/null"})
    assert uv_environment(home | {"PIP_CERT": "/ca.pem"})["SSL_CERT_FILE"] == "/ca.pem"
    assert uv_environment(home)["UV_COMPILE_BYTECODE_TIMEOUT"] == "600"
    patient = {"UV_COMPILE_BYTECODE_TIMEOUT": "900"}
    assert uv_environment(home | patient).items() >= patient.items()
    assert "UV_PUBLISH_TOKEN" not in uv_environment(home | {"UV_PUBLISH_TOKEN": "hush"})
