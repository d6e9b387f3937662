"""Directories in the memory of hosts: mounted with the size asked for, the worker's own, gone with the lease."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import Unfit
from tasks.cloud.tpu_model import Address, Node
from tasks.config.size import in_bytes
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.lease import State
from tasks.stages.run import run_workload
from tasks.stages.upload import upload
from tasks.targets.tpu_hosts import hosts_config
from tasks.targets.types import Image, Plan
from tests.cloud.sshd import Sshd, serve_ssh
from tests.tasks.targets.ssh_runs import config_of, hold, host_folder, run_of, spec_of
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def machines(need_sshd: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    """Hosts that are entered as root, where that may mount."""
    place = tmp_path_factory.mktemp("may-mount")
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "probe", place], check=False).returncode:
        pytest.skip("mounting needs root, with its rights")
    subprocess.run(["umount", place], check=True)
    with serve_ssh(2, user="root", homes=True) as hosts:  # what root logs in with here is no part of the test
        yield hosts


def mounted(lease: str, below: Path) -> list[str]:
    """Returns where the directories of a lease are mounted; other tests may have leases of that name elsewhere."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [
        path
        for source, path, *_ in lines
        if source == f"slicebench-{lease}" and Path(path).is_relative_to(below)
    ]


def test_each_worker_gets_one_of_the_size_asked_for_and_it_goes_with_the_lease(
    machines: list[Sshd], pool: Pool
) -> None:
    with host_folder() as folder:
        config = config_of(machines, folder, ram_directory="8MiB", output=str(folder / "shared"))
        run = run_of(spec_of(folder / "out", config), folder, pool)
        holding = hold(run)
        image = Image("venv", "test", str(config.python))
        uploaded = upload(run, run.target.acquire(run.target.plan(run.spec), holding), image)
        assert [one.end for one in run_workload(run, uploaded, holding).attempts] == ["succeeded"]
        folders = [folder / "home" / "runs" / f"run-1-w000{worker}" for worker in (0, 1)]
        assert sorted(mounted("run-1-e1", folder)) == [str(one / "ram") for one in folders]
        for one in folders:
            assert json.loads((one / "job-a1.json").read_text())["local_directory"] == str(one / "ram" / "a1")
            space = os.statvfs(one / "ram")
            assert space.f_blocks * space.f_frsize == in_bytes("8MiB")
            assert (one / "ram").stat().st_mode & 0o777 == 0o700
        (folders[0] / "ram" / "a1").mkdir()
        (folders[0] / "ram" / "a1" / "left").write_bytes(b"x" * 1000)
        run.target.start(uploaded, 2, holding)
        assert not (folders[0] / "ram" / "a1").exists(), "an attempt takes no memory from the next"
        done = holding.release("over")
        assert (done.lease.state, done.problems) == (State.GONE, ())
        assert mounted("run-1-e1", folder) == []
        assert not folders[0].exists()


def test_tpu_vms_get_one_as_hosts_do() -> None:
    fields = {"kind": "tpu_vm", "type": "v6e-1", "zones": ["us-east5-b"], "ram_directory": "64 GiB"}
    node = Node("p", "z", "n", "1", "READY", "v6e-1", "", addresses=(Address("10.0.0.1", None),))
    plan = Plan("t", [], 1, 1, 1, "tpu")
    config = hosts_config(
        TpuVmTargetConfig.model_validate(fields), plan, [node], [[Endpoint("10.0.0.1", "me", keys=("k",))]]
    )
    assert in_bytes(str(config.ram_directory)) == 64 * 2**30


def test_it_is_refused_where_the_memory_is_not_there(machines: list[Sshd], pool: Pool) -> None:
    with host_folder() as folder:
        run = run_of(
            spec_of("gs://bucket/r", config_of(machines, folder, ram_directory="4000GiB")), folder, pool
        )
        told = run.target.preflight(run.target.plan(run.spec))
        problems = [one for one in told if "ram_directory" in one.what]
        assert [one.severity for one in problems] == ["error", "error"]
        assert f"{machines[0].address}:" in problems[0].what
        assert "ram_directory: takes 4096000 MiB, and " in problems[0].what
        holding = hold(run)
        with pytest.raises(Unfit, match=r"takes 4096000 MiB of memory, and \d+ MiB are free: ask for less"):
            run.target.acquire(run.target.plan(run.spec), holding)
        assert holding.release("over").lease.state is State.GONE


def test_it_is_refused_where_nobody_may_mount(need_sshd: None, pool: Pool) -> None:
    with host_folder() as folder, serve_ssh(1, config=[f"SetEnv PATH={folder}:/usr/bin:/bin"]) as hosts:
        if hosts[0].user == "root":
            pytest.skip("root may")
        (folder / "sudo").write_text("#!/bin/sh\necho a password is required >&2\nexit 1\n")
        (folder / "sudo").chmod(0o755)
        run = run_of(spec_of("gs://bucket/r", config_of(hosts, folder, ram_directory="8MiB")), folder, pool)
        told = run.target.preflight(run.target.plan(run.spec))
        [problem] = [one for one in told if "ram_directory" in one.what]
        assert "sudo -n true failed, with exit code 1: a password is required" in problem.what
        assert "use sudo there without a password" in problem.fix


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(connect_s=PATIENCE_S)
    yield pool
    pool.close()
