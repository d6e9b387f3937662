"""Whole runs on TPU VMs of the stand-in whose workers are real sshd: real supervisors and workers, JAX on CPUs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from runtime.contract.errors import ExitCode
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.config.home import hosts_folder, scratch_folder
from tasks.config.request import RunRequest
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.stages.build import build
from tasks.stages.collect import collect
from tasks.stages.prepare import prepare
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.tpu_vm import TpuVmTarget
from tests.cloud.sshd import Sshd, missing, serve_ssh
from tests.cloud.tpu.leasing import QUICK, ZONE
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import host_folder, python_with_jax
from tests.tasks.targets.tpu_runs import hold

pytestmark = pytest.mark.system

SUITE = """\
suite_name: small
num_repeats: 2
mesh_config: {{mesh_axes: [x], ici_parallelism: {{x: {devices}}}}}
checkpoint_config:
  spec: {{a: {{dtype: float32, shape: [64, 64], sharding: [x, null]}}}}
benchmarks:
  - generator: runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint
    options: {{use_ocdbt: [true, false]}}
"""

KINDS: dict[str, dict[str, Any]] = {
    "node": {"slices": 1},
    "queued resource": {"slices": 1, "queued": True},
    "two slices": {"slices": 2},
    "existing": {"slices": 1, "existing": "mine"},
}


@pytest.fixture(scope="module")
def machines() -> Iterator[list[Sshd]]:
    if reason := missing():
        pytest.skip(reason)
    with serve_ssh(2, user=python_with_jax()[0]) as hosts:
        hosts[0].key.with_suffix(".pub").write_text("")
        yield hosts


@pytest.fixture
def place(machines: list[Sshd], tpu_cloud: Cloud) -> Iterator[Path]:
    with tpu_cloud.store.changing() as world:
        world["hosts"] = [
            {"address": one.address, "host_key": one.pin, "authorized_keys": f"{one.key}.pub"}
            for one in machines
        ]
    with host_folder() as folder:
        yield folder


@pytest.mark.parametrize("kind", KINDS)
def test_made_run_collected_and_given_back(
    machines: list[Sshd],
    tpu_cloud: Cloud,
    place: Path,
    gcs_bucket: str,
    gcs_url: str,
    kind: str,
) -> None:
    if kind == "existing":
        tpu = CloudTpu("proj", timing=QUICK)
        tpu.create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    slices = KINDS[kind]["slices"]
    (place / "suite.yaml").write_text(SUITE.format(devices=slices))
    target = {
        "kind": "tpu_vm", "type": "v6e-1", "zones": [ZONE], "platform": "cpu", "user": machines[0].user,
        "ssh_port": machines[0].port, "folder": str(place / "home"), "python": python_with_jax()[1],
        **KINDS[kind],
    }  # fmt: skip
    (place / "tpu.yaml").write_text(yaml.safe_dump(target))
    emulator = {
        "STORAGE_EMULATOR_HOST": gcs_url,
        "TENSORSTORE_GCS_HTTP_URL": gcs_url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
    request = RunRequest(
        suite=str(place / "suite.yaml"), target=str(place / "tpu.yaml"), output=gcs_bucket, run_id="run-1",
        env=[f"{name}={value}" for name, value in emulator.items()],
    )  # fmt: skip
    said: list[str] = []
    run = prepare(request, said.append)
    config = run.spec.target
    assert isinstance(config, TpuVmTargetConfig)
    book = AddressBook(hosts_folder())
    quick = TpuVmTarget(config, scratch_folder(), Pool(), book, say=said.append, poll_s=0.1, watch_s=1.0)
    run = replace(run, target=quick)
    holding = hold()
    try:
        uploaded = upload(run, provision(run, holding), build(run))
        outcome = run_workload(run, uploaded, holding)
        results = collect(run)
    finally:
        teardown(run, holding, patience=Patience(deadline_s=600.0))
    assert exit_code_of(outcome) == ExitCode.DONE, said
    assert (results.passed, len(results.points), results.troubles) == (2, 2, [])
    samples = pd.read_parquet(io.BytesIO(run.folder.read("samples.parquet") or b""))
    saves = samples[(samples.operation == "save") & (samples.metric == "time_s")]
    assert set(saves.worker) == set(range(slices))
    assert holding.lease.state is State.GONE
    left = [name.rsplit("/", 1)[1] for name in tpu_cloud.inventory()]
    assert left == (["mine"] if kind == "existing" else [])
    if kind == "existing":
        assert dict(tpu.node(ZONE, "mine").metadata) == {}
        assert alive_under("run-1-e1") == []
        assert not list((place / "home" / "runs").iterdir())
    for worker in range(slices):
        log = (run.folder.read(f"logs/worker-{worker:04d}.log") or b"").decode()
        assert "the worker is through 2 benchmarks" in log
