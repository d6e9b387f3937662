"""The real thing: worker venvs from the package registry, and Orbax from a repository's source."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tasks.cloud.resolve import Lock, Request, resolve
from tasks.cloud.uv import run_uv
from tasks.config.spec import SourceSpec
from tasks.stages.build import build, explain_build
from tests.tasks.stages.test_build import git, holding_nothing, make_run

__all__ = ["holding_nothing"]

pytestmark = pytest.mark.system

_SAVE_AND_RESTORE = """
import sys, jax, numpy, orbax.checkpoint as ocp
tree = {"a": jax.numpy.arange(8.0)}
checkpointer = ocp.PyTreeCheckpointer()
checkpointer.save(sys.argv[1], tree)
assert numpy.array_equal(checkpointer.restore(sys.argv[1])["a"], tree["a"])
print(jax.__version__, ocp.__version__, ocp.__file__)
"""


def save_and_restore(python: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [python, "-I", "-c", _SAVE_AND_RESTORE, str(folder)],
        check=True, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    return done.stdout.split()


def test_the_locked_versions(tmp_path: Path) -> None:
    image = build(make_run(tmp_path))
    jax, orbax, file = save_and_restore(image.python, tmp_path / "saved")
    assert (jax, orbax) == (image.versions["jax"], image.versions["orbax-checkpoint"])
    assert file.startswith(str(Path(image.python).parents[1]))
    again = make_run(tmp_path, run_id="again")
    assert not explain_build(again.spec).rebuild and build(again).reused


def test_newest_is_what_the_index_says(tmp_path: Path) -> None:
    said: list[str] = []
    newest = resolve(Request(jax="newest"), Lock(), sys.executable, tmp_path, say=said.append)
    (tmp_path / "only.in").write_text("jax\n")
    alone = run_uv(
        "pip", "compile", "--quiet", "--no-header", "--python", sys.executable, "only.in", cwd=tmp_path
    )
    assert f"jax=={newest.jax}\n" in alone.text


@pytest.fixture
def orbax_repository(tmp_path: Path) -> Path:
    """A repository made from the released source distribution, laid out as Orbax's own, with one change."""
    run_uv("venv", "--quiet", str(tmp_path / "v"), cwd=tmp_path)
    run_uv(
        "pip", "install", "--quiet", "--python", str(tmp_path / "v" / "bin" / "python"), "--no-deps",
        "--target", str(tmp_path / "installed"), "orbax-checkpoint==0.12.8",
        cwd=tmp_path,
    )  # fmt: skip
    repository = tmp_path / "orbax"
    package = repository / "checkpoint"
    package.mkdir(parents=True)
    (tmp_path / "installed" / "orbax").rename(package / "orbax")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["flit_core >=3.5, <4"]\nbuild-backend = "flit_core.buildapi"\n'
        '[project]\nname = "orbax-checkpoint"\nversion = "0.12.8.post1"\ndescription = "from source"\n'
        'dependencies = ["absl-py", "etils[epath,epy]", "typing_extensions", "msgpack", "jax", "numpy", "pyyaml",'
        ' "tensorstore", "aiofiles", "protobuf", "humanize", "simplejson", "psutil", "uvloop"]\n'
        '[tool.flit.module]\nname = "orbax.checkpoint"\n'
    )
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "released")
    return repository


def test_orbax_from_source(orbax_repository: Path, tmp_path: Path) -> None:
    first = build(make_run(tmp_path, SourceSpec(repo=str(orbax_repository), branch="main")))
    assert first.versions["orbax-checkpoint"] == "0.12.8.post1"
    save_and_restore(first.python, tmp_path / "saved")
    mark = orbax_repository / "checkpoint" / "orbax" / "checkpoint" / "mark.py"
    mark.write_text("MARK = 'dirty'\n")
    second = build(make_run(tmp_path, SourceSpec(repo=str(orbax_repository)), "second"))
    assert second.source["dirty"] == "true" and second.source["commit"] == first.source["commit"]
    for python, code in ((first.python, 1), (second.python, 0)):
        assert (
            subprocess.run([python, "-I", "-c", "import orbax.checkpoint.mark"], check=False).returncode
            == code
        )


def test_the_wheel_of_slicebench_carries_the_lock(tmp_path: Path) -> None:
    checkout, copy = Path(__file__).parents[2], tmp_path / "copy"
    for name in ("flows", "runtime", "tasks"):
        shutil.copytree(checkout / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "pyproject.toml", copy)
    (copy / "README.md").write_text("")
    run_uv("build", "--wheel", "--out-dir", str(tmp_path), str(copy), cwd=tmp_path)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    wanted = {"requirements.in", "requirements.lock", "requirements-orbax-classes.in"}
    assert {f"runtime/{name}" for name in wanted} <= names
