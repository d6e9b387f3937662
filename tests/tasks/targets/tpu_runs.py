"""Makes runs on TPU VMs of the stand-in whose workers are real sshd of this machine: a bench to work at, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.job import Deadlines
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.storage import open_folder
from tasks.cloud.tpu_types import tpu_type
from tasks.config.home import hosts_folder, scratch_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories
from tasks.leases.ledger import Ledger
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.upload import upload
from tasks.targets.tpu_vm import TpuVmTarget
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.leasing import ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.local_runs import point
from tests.tasks.targets.ssh_runs import host_folder, python_of


@dataclass
class Bench:
    """What a test works at: hosts, the stand-in with them, a folder for the hosts, a bucket, and what was said."""

    hosts: list[Sshd]
    cloud: Cloud
    folder: Path
    bucket: str
    pool: Pool
    said: list[str]

    def config(self, **more: Any) -> TpuVmTargetConfig:
        fields = {
            "kind": "tpu_vm", "type": "v6e-1", "slices": 2, "zones": [ZONE, "us-east5-a"], "platform": "cpu",
            "user": self.hosts[0].user, "ssh_port": self.hosts[0].port, "folder": str(self.folder / "home"),
            "python": python_of(self.hosts[0].user), **more,
        }  # fmt: skip
        return TpuVmTargetConfig.model_validate(fields)

    def run(
        self,
        config: TpuVmTargetConfig,
        workload: str = "succeed",
        output: str | None = None,
        run_id: str = "run-1",
        lease_s: float = 60.0,
        **more: Any,
    ) -> Run:
        shape = tpu_type(config.type)
        devices = config.slices * shape.hosts * shape.devices_per_host
        spec = RunSpec(
            run_id=run_id, suite_name="tiny", suite_path="tiny.yaml", suite_text="suite_name: tiny\n",
            points=[point(devices=devices)], num_repeats=1, target_name="tpus", target=config,
            source=SourceSpec(), output=output or self.bucket, deadlines=Deadlines(),
            env={"WORKLOAD": workload}, **{"keep": "never", **more},
        )  # fmt: skip
        target = TpuVmTarget(
            config, scratch_folder(), self.pool, AddressBook(hosts_folder()), say=self.said.append,
            supervisor=lambda python, job: (python, str(self.folder / "standin.py"), job),
            lease_s=lease_s, poll_s=0.05, watch_s=0.2,
        )  # fmt: skip
        return Run(spec, open_folder(f"{spec.output}/{spec.run_id}"), target, self.said.append)


@pytest.fixture(scope="module")
def machines(need_sshd: None) -> Iterator[list[Sshd]]:
    """Three hosts whose keys nobody but the stand-in can push."""
    with serve_ssh(3) as hosts:
        yield hosts


@pytest.fixture
def bench(machines: list[Sshd], tpu_cloud: Cloud, gcs_bucket: str) -> Iterator[Bench]:
    machines[0].key.with_suffix(".pub").write_text("")
    with tpu_cloud.store.changing() as world:
        world["hosts"] = [
            {"address": one.address, "host_key": one.pin, "authorized_keys": f"{one.key}.pub"}
            for one in machines
        ]
    with host_folder() as folder:
        pool = Pool()
        yield Bench(machines, tpu_cloud, folder, gcs_bucket, pool, [])
        pool.close()


def inventories_of(ledger: Ledger) -> Inventories:
    """Returns all inventories but that of this machine's processes: those on the hosts would show in it."""
    return {kind: one for kind, one in quick_inventories(ledger).items() if kind != "process"}


def hold(run_id: str = "run-1", ledger: Ledger | None = None) -> Holding:
    ledger = ledger or a_ledger()
    return claim(ledger, inventories_of(ledger), run_id, run_id)


def play(run: Run, holding: Holding) -> list[tuple[int, str]]:
    image = run.target.image()
    assert image is not None
    uploaded = upload(run, provision(run, holding), image)
    return [(one.n, one.end) for one in run_workload(run, uploaded, holding).attempts]
