"""Venvs that hosts make for themselves: with which of their Pythons, of what, and what is told when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.resolve import Lock
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint, Host
from tasks.cloud.ssh_errors import Unfit
from tasks.config.spec import SourceSpec
from tasks.stages.build import build, explain_build
from tasks.stages.context import Run
from tasks.stages.upload import upload
from tasks.targets.ssh_venvs import choose
from tests.cloud.fake_index import add_wheel, lock, wheels, write_orbax_source
from tests.cloud.sshd import Sshd, serve_ssh
from tests.tasks.targets.ssh_runs import config_of, hold, host_folder, run_of, spec_of
from tests.waiting import PATIENCE_S

__all__ = ["lock", "wheels"]


def host(address: str) -> Host:
    return Host(Endpoint(address, "me"))


def python(version: str, path: str = "/usr/bin/python3", venv: bool = True) -> dict[str, object]:
    return {
        "path": path,
        "version": version,
        "implementation": "CPython",
        "platform": "linux-x86_64",
        "libc": "glibc-2.36",
        "venv": venv,
    }


def test_the_newest_python_that_all_have_is_chosen() -> None:
    first, second = host("h1"), host("h2")
    chosen = choose(
        {
            first: [python("3.10.1"), python("3.11.9", "/a"), python("3.12.1", "/b"), python("3.13.0", "/c")],
            second: [python("3.12.1", "/d"), python("3.11.9", "/e"), python("3.15.0rc1")],
        }
    )
    assert (chosen.interpreter.version, chosen.paths) == ("3.12.1", {first: "/b", second: "/d"})


def test_a_host_without_a_python_is_told_with_what_it_has_and_the_fix() -> None:
    bare = [python("3.9.2", "/usr/bin/python3.9"), python("3.11.2", "/usr/bin/python3.11", venv=False)]
    with pytest.raises(BadInput) as caught:
        choose({host("h1"): bare, host("h2"): [], host("h3"): [python("3.12.1")]})
    first, second = caught.value.problems
    assert "me@h1:22: workers need Python 3.11 to 3.14 with venv" in first.what
    assert "/usr/bin/python3.9 (3.9.2), /usr/bin/python3.11 (3.11.2, without venv)" in first.what
    assert "apt-get install python3 python3-venv" in first.fix
    assert "me@h2:22" in second.what and second.what.endswith("found: none")


def test_hosts_without_a_python_in_common_are_refused() -> None:
    with pytest.raises(
        BadInput, match=r"no Python in common: me@h1:22: /usr/bin/python3 \(3\.11\.2\); me@h2:22"
    ):
        choose({host("h1"): [python("3.11.2")], host("h2"): [python("3.12.1")]})


@pytest.fixture
def place() -> Iterator[Path]:
    with host_folder() as folder:
        yield folder


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(connect_s=PATIENCE_S)
    yield pool
    pool.close()


@pytest.fixture
def hosts(need_sshd: None, place: Path) -> Iterator[list[Sshd]]:
    """Two hosts that share their homes; their pip sees a folder of wheels and nothing else."""
    settings = f"PIP_NO_INDEX=1 PIP_FIND_LINKS={place}/wheels PIP_CONFIG_FILE=/dev/null"
    with serve_ssh(2, config=[f"SetEnv {settings}"]) as hosts:
        yield hosts


def unpinned(
    hosts: list[Sshd], place: Path, pool: Pool, said: list[str], run_id: str, source: SourceSpec
) -> Run:
    from dataclasses import replace

    config = config_of(hosts, place, output=str(place / "shared")).model_copy(update={"python": None})
    run = run_of(replace(spec_of(place / "out", config, run_id), source=source), place, pool, said)
    return replace(run, target=type(run.target)(config, pool, run.target._book, say=said.append))  # type: ignore[attr-defined]


def test_hosts_make_what_they_lack_once_and_lay_code_under_test_over_it(
    hosts: list[Sshd], place: Path, pool: Pool, lock: Lock, wheels: Path, tmp_path: Path
) -> None:
    subprocess.run(["cp", "-r", str(wheels), str(place / "wheels")], check=True)
    repo = tmp_path / "orbax"
    write_orbax_source(repo, "0.13.0")
    said: list[str] = []
    run = unpinned(hosts, place, pool, said, "run-1", SourceSpec(repo=str(repo)))
    assert explain_build(run.spec, lock=lock).rebuild
    holding = hold(run)
    image = build(run, lock=lock)
    workers = run.target.acquire(run.target.plan(run.spec), holding)
    image = upload(run, workers, image).image
    assert image.versions["orbax-checkpoint"] == "0.13.0"
    assert (image.versions["jax"], image.reused) == ("0.9.0", False)
    assert any("venv" in line and "made on 1 of them" in line for line in said), "their homes are one"
    assert (
        "jax-0.9.0"
        in (run.folder.read("logs/venv-0000.log") or run.folder.read("logs/venv-0001.log") or b"").decode()
    )
    code = "import importlib.metadata as m, jax; print(m.version('orbax-checkpoint'), jax.VERSION)"
    assert subprocess.check_output([image.python, "-I", "-c", code], text=True, cwd="/").split() == [
        "0.13.0",
        "0.9.0",
    ]

    write_orbax_source(repo, "0.13.1")
    edited = unpinned(hosts, place, pool, said, "run-2", SourceSpec(repo=str(repo)))
    another = hold(edited)
    second = build(edited, lock=lock)
    uploaded = upload(edited, edited.target.acquire(edited.target.plan(edited.spec), another), second)
    assert uploaded.image.versions["orbax-checkpoint"] == "0.13.1"
    assert uploaded.image.python != image.python
    assert edited.folder.read("logs/venv-0000.log") is None, "no pip ran: only the code was new"
    resumed = build(edited, lock=lock)
    assert (resumed.reference, resumed.reused) == (second.reference, True)
    holding.release("over")
    another.release("over")
    assert (place / "home" / "venvs").is_dir(), "what later runs need again stays"


def test_a_package_that_the_hosts_index_lacks_is_told_with_the_host(
    hosts: list[Sshd], place: Path, pool: Pool, lock: Lock
) -> None:
    (place / "wheels").mkdir()
    add_wheel(place / "wheels", "jaxlib", "0.9.0")
    run = unpinned(hosts[:1], place, pool, said := [], "run-1", SourceSpec())
    holding = hold(run)
    image = build(run, lock=lock)
    workers = run.target.acquire(run.target.plan(run.spec), holding)
    with pytest.raises(Unfit) as caught:
        upload(run, workers, image)
    assert hosts[0].address in str(caught.value)
    assert "pip install failed with exit code 1" in str(caught.value)
    assert "No matching distribution found for jax==0.9.0" in str(caught.value)
    assert b"No matching distribution" in (run.folder.read("logs/venv-0000.log") or b""), said
    holding.release("over")
