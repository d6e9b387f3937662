"""`slicebench tpu update` and `discover` on real sshd: after an update, workers import what the branch holds."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.cli.main import main
from runtime.contract.errors import ExitCode
from tests.cloud.fake_index import add_wheel
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.running import Cloud
from tests.flows.cli.test_tpu_workers import two_slices
from tests.tasks.targets.ssh_runs import host_folder

BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    stem = "orbax_checkpoint-1.0"
    files = {
        "orbax_checkpoint.pth": os.getcwd() + "\\n",
        f"{stem}.dist-info/METADATA": "Metadata-Version: 2.1\\nName: orbax-checkpoint\\nVersion: 1.0\\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{stem}.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{stem}.dist-info/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, f"{stem}-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return f"{stem}-py3-none-any.whl"
"""
"""A build backend that needs no download."""


@dataclass
class Repository:
    """A repository shaped like Orbax's, and the Python of the workers."""

    folder: Path
    home: Path
    python: str

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def commit(self, text: str) -> str:
        """Commits a new content of the package; returns the hash."""
        (self.folder / "checkpoint/orbax/checkpoint/__init__.py").write_text(f"HELD = {text!r}\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", text)
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *who, *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def imported(self) -> str:
        """Returns what a worker's Python imports."""
        asked = [self.python, "-c", "import orbax.checkpoint as o; print(o.HELD)"]
        return subprocess.run(asked, check=True, capture_output=True, text=True, cwd="/").stdout.strip()


@pytest.fixture(scope="module")
def machines(need_sshd: None) -> Iterator[list[Sshd]]:
    """Two hosts that one enters as oneself: git only reads repositories of the same user."""
    with serve_ssh(2, user=getpass.getuser()) as hosts:
        hosts[0].key.with_suffix(".pub").write_text("")
        yield hosts


@pytest.fixture(scope="module")
def repository() -> Iterator[Repository]:
    with host_folder() as folder:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
        (folder / "venv/pip.conf").write_text("[global]\nno-index = true\n")
        repo = Repository(folder / "repo", folder / "home", str(folder / "venv/bin/python"))
        package = repo.folder / "checkpoint"
        (package / "orbax/checkpoint").mkdir(parents=True)
        (package / "backend.py").write_text(BACKEND)
        (package / "pyproject.toml").write_text(
            textwrap.dedent("""\
            [build-system]
            requires = []
            build-backend = "backend"
            backend-path = ["."]
            [project]
            name = "orbax-checkpoint"
            version = "1.0"
            """)
        )
        repo.git("init", "--quiet", "--initial-branch", "main")
        repo.commit("first")
        yield repo


def words(repository: Repository, flags: list[str], *more: str) -> list[str]:
    where = ["--python", repository.python, "--folder", str(repository.home)]
    return ["tpu", "update", "mine", *flags, *where, *more]


def test_workers_import_the_head_that_was_asked_for(
    two_slices: list[str], repository: Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    code = words(repository, two_slices, "--repo", repository.url)
    assert main([*code, "--branch", "main"]) == 0
    assert "2 workers of mine import Orbax" in capfd.readouterr().err
    assert repository.imported() == "first"
    second = repository.commit("second")
    assert main([*code, "--branch", "main", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["commit"], told["ref"], told["workers"]) == (second, "refs/heads/main", 2)
    assert repository.imported() == "second"
    clone = repository.home / "source"
    kept = subprocess.check_output(["git", "for-each-ref", "--format=%(objectname)"], cwd=clone, text=True)
    assert kept.split() == [second], "of what is here the next fetch brings nothing again"

    repository.git("checkout", "--quiet", "-b", "other")
    third = repository.commit("third")
    repository.git("update-ref", "refs/pull/7/head", third)
    repository.git("checkout", "--quiet", "main")
    assert main([*code, "--pr", "7"]) == 0
    assert repository.imported() == "third"
    head = subprocess.run(["git", "symbolic-ref", "-q", "HEAD"], cwd=clone, capture_output=True, check=False)
    assert head.returncode == 1, "detached"

    (clone / "checkpoint/orbax/checkpoint/__init__.py").write_text("HELD = 'mine'\n")
    assert main([*code, "--branch", "main"]) == ExitCode.INFRASTRUCTURE
    assert "has changes of yours: checkpoint/orbax/checkpoint/__init__.py" in capfd.readouterr().err
    assert repository.imported() == "mine"
    assert main([*code, "--branch", "main", "--discard"]) == 0
    assert repository.imported() == "second"

    capfd.readouterr()
    assert main([*code, "--branch", "mian"]) == ExitCode.BAD_INPUT
    assert "mian" in capfd.readouterr().err


def test_another_jax(
    two_slices: list[str], repository: Repository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    index = repository.home.parent / "index"
    add_wheel(index, "jax", "0.9.9")
    flags = words(repository, two_slices, "--jax-version", "0.9.9", "--jax-index", f"file://{index}")
    assert main(flags) == 0
    assert "2 workers of mine import JAX 0.9.9" in capfd.readouterr().err


def test_setup_runs_first_and_once(
    two_slices: list[str], repository: Repository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "mine.sh"
    script.write_text(f"echo ran >> {repository.home.parent}/ran\n")
    for _ in range(2):
        assert main(["tpu", "update", "mine", *two_slices, "--setup", str(script)]) == 0
    assert "2 workers of mine are set up, after " in capfd.readouterr().err
    assert main(["tpu", "update", "mine", *two_slices, "--setup", str(script), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["name"], told["workers"], told["setup"], told["commit"]) == ("mine", 2, [str(script)], "")
    # Both hosts share one home folder, so one may find that the other did it.
    assert 1 <= (repository.home.parent / "ran").read_text().count("ran") <= 2


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ((), ExitCode.BAD_INPUT, "there is nothing to update"),
        (("--repo", "."), ExitCode.BAD_INPUT, "push it to a fork"),
        (("--jax-version", "nightly"), ExitCode.BAD_INPUT, "--jax-index"),
        (("--branch", "a", "--pr", "3"), ExitCode.BAD_INPUT, "exclude each other"),
        (
            ("--jax-version", "0.9.9", "--python", "/no/python"),
            ExitCode.INFRASTRUCTURE,
            "set the TPU up first",
        ),
    ],
)
def test_what_cannot_be_updated_says_why(
    two_slices: list[str],
    capfd: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    code: ExitCode,
    told: str,
) -> None:
    capfd.readouterr()
    assert main(["tpu", "update", "mine", *two_slices, *more]) == code
    assert told in capfd.readouterr().err


def test_discover_says_who_they_are_and_who_does_not_let_us_in(
    two_slices: list[str],
    machines: list[Sshd],
    tpu_cloud: Cloud,
    capfd: pytest.CaptureFixture[str],
) -> None:
    capfd.readouterr()
    assert main(["tpu", "discover", "mine", *two_slices]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[:5] for line in lines] == [
        [f"[{n}]", "slice", str(n), f"mine-{n}", machines[n].address] for n in (0, 1)
    ]
    with tpu_cloud.store.changing() as world:
        world["hosts"][1]["host_key"] = machines[0].pin
    assert main(["tpu", "discover", "mine", *two_slices, "--json"]) == ExitCode.INFRASTRUCTURE
    found = json.loads(capfd.readouterr().out)["workers"]
    assert found[0]["hostname"]
    assert "somebody may stand in between" in found[1]["error"]
