"""Venvs on TPU VMs: packages chosen before there are workers, the Python brought, the venv made, named and used."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.resolve import Lock
from tasks.config.spec import SourceSpec
from tasks.leases.lease import State
from tasks.stages.build import build, check_source, explain_build
from tasks.stages.provision import provision
from tasks.stages.recipes import asked_for
from tasks.stages.run import run_workload
from tasks.stages.upload import upload
from tasks.targets.types import Interpreter
from tests.cloud.fake_index import add_jax, add_wheel, lock, wheels, write_orbax_source
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.ssh_runs import host_folder
from tests.tasks.targets.tpu_runs import Bench, bench, hold

UV = '#!/bin/sh\necho "$@" >> {log}\necho "no such Python" >&2\nexit {code}\n'


@pytest.fixture(scope="module")
def shop() -> Iterator[Path]:
    """Where the hosts find wheels and programs, and nothing else."""
    with host_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def machines(need_sshd: None, shop: Path) -> Iterator[list[Sshd]]:
    settings = (
        f"PIP_NO_INDEX=1 PIP_FIND_LINKS={shop}/wheels PIP_CONFIG_FILE=/dev/null PATH={shop}:/usr/bin:/bin"
    )
    with serve_ssh(2, config=[f"SetEnv {settings}"]) as hosts:
        yield hosts


def test_a_venv_is_made_on_the_workers_with_the_code_under_test(
    bench: Bench, shop: Path, lock: Lock, wheels: Path, tmp_path: Path
) -> None:
    subprocess.run(["cp", "-r", str(wheels), str(shop / "wheels")], check=True)
    write_orbax_source(tmp_path / "orbax", "0.13.0")
    run = bench.run(bench.config(python=None, python_version="3.11"))
    run = replace(run, spec=replace(run.spec, source=SourceSpec(repo=str(tmp_path / "orbax"))))
    assert explain_build(run.spec, lock=lock).rebuild
    image = build(run, lock=lock)
    assert (image.python, image.versions["python"]) == ("", "3.11")
    assert bench.cloud.mutations() == [], "what to build is known before anything is made"
    holding = hold()
    uploaded = upload(run, provision(run, holding), image)
    assert uploaded.image.versions["orbax-checkpoint"] == "0.13.0"
    assert uploaded.image.versions["python"].startswith("3.11.")
    assert Path(uploaded.image.python).is_relative_to(bench.folder / "home" / "venvs")
    assert [one.end for one in run_workload(run, uploaded, holding).attempts] == ["succeeded"]
    assert holding.release("over").lease.state is State.GONE
    assert bench.cloud.inventory() == []


def test_a_python_that_workers_lack_is_asked_for_and_its_refusal_told(bench: Bench, shop: Path) -> None:
    log = bench.folder / "uv.log"
    (shop / "uv").write_text(UV.format(log=log, code=2))
    (shop / "uv").chmod(0o755)
    run, holding = bench.run(bench.config(python=None, python_version="3.14")), hold()
    with pytest.raises(
        InfrastructureError, match=r"Python 3\.14 could not be brought .*no such Python.*setup:"
    ):
        provision(run, holding)
    assert set(log.read_text().splitlines()) == {"python install --quiet 3.14"}
    assert "bringing Python 3.14 to 2 of 2 workers" in bench.said
    assert holding.release("over").lease.state is State.GONE


def test_packages_are_chosen_for_the_glibc_of_the_workers() -> None:
    identity = "CPython 3.12.1 linux-aarch64 glibc-2."
    told = [asked_for(Interpreter("3.12.1", "linux-aarch64", f"{identity}{minor}")) for minor in (17, 30, 55)]
    platforms = ["aarch64-unknown-linux-gnu", "aarch64-manylinux_2_28", "aarch64-manylinux_2_40"]
    assert told == [("3.12.1", platform) for platform in platforms]


def test_packages_for_tpus_are_chosen_for_the_workers_python(bench: Bench, lock: Lock, wheels: Path) -> None:
    add_jax(wheels, "0.11.0", python=">=3.12", tpu="0.0.11")
    config = bench.config(python=None, platform="tpu")
    run = bench.run(config)
    run = replace(run, spec=replace(run.spec, source=SourceSpec(jax_version="0.11.0")))
    check_source(run.spec, lock=lock)
    image = build(run, lock=lock)
    marker = run.marker("build")
    assert marker is not None and marker["outputs"]["inputs"]["extras"] == "tpu"
    assert (image.versions["jax"], image.versions["python"]) == ("0.11.0", "3.12")
