"""Makes runs on this machine for tests: a small suite, a target whose supervisors are the stand-in,
a holding."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.contract.job import Deadlines
from runtime.contract.suite import ArraySpec, CheckpointSpec, MeshSpec, Point
from tasks.cloud.storage import open_folder
from tasks.config.home import ledger_uri, scratch_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.target import LocalTargetConfig
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import open_inventories
from tasks.leases.opening import open_ledger
from tasks.stages.context import Run
from tasks.targets.local import LocalTarget, SupervisorCommand
from tasks.targets.types import Image

STANDIN = Path(__file__).with_name("standin.py")
IMAGE = Image("venv", "dev", sys.executable)


def standin(python: str, job: str) -> Sequence[str]:
    return (python, str(STANDIN), job)


def mesh(devices: int) -> MeshSpec:
    return MeshSpec(("x",), {"x": devices})


def point(index: int = 0, devices: int | None = 4, shape: tuple[int, ...] = (8, 8)) -> Point:
    return Point(
        index=index,
        benchmark="tiny",
        key=f"key-{index}",
        generator="runtime.benchmarks.pytree_checkpoint.PyTreeCheckpointBenchmark",
        implementation="native",
        options={},
        mesh=None if devices is None else mesh(devices),
        checkpoint=CheckpointSpec(spec={"params": {"a": ArraySpec("float32", shape)}}),
    )


def spec(
    output: Path | str,
    *,
    run_id: str = "run-1",
    points: Sequence[Point] = (),
    target: LocalTargetConfig | None = None,
    workload: str = "succeed",
) -> RunSpec:
    return RunSpec(
        run_id=run_id,
        suite_name="tiny",
        suite_path="tiny.yaml",
        suite_text="suite_name: tiny\n",
        points=points or [point()],
        num_repeats=1,
        target_name="local",
        target=target or LocalTargetConfig(kind="local"),
        source=SourceSpec(),
        output=str(output),
        keep="never",
        deadlines=Deadlines(),
        env={"WORKLOAD": workload},
    )


def make_run(
    run_spec: RunSpec,
    said: list[str] | None = None,
    supervisor: SupervisorCommand = standin,
    lease_s: float = 60.0,
) -> Run:
    target = LocalTarget(run_spec.target, scratch_folder(), supervisor=supervisor, lease_s=lease_s)
    folder = open_folder(f"{run_spec.output}/{run_spec.run_id}")
    return Run(run_spec, folder, target, (said if said is not None else []).append)


def hold(run: Run) -> Holding:
    ledger = open_ledger(ledger_uri())
    return claim(ledger, open_inventories(ledger, scratch_folder()), run.spec.run_id, run.spec.run_id)


def alive_under(lease_id: str) -> list[int]:
    """Returns the pids whose environment carries a lease of this test's ledger, found without the inventories."""
    ledger = open_ledger(ledger_uri())
    if not ledger.exists():
        return []
    labels = {f"SLICEBENCH_LEASE={lease_id}", f"SLICEBENCH_LEDGER_ID={ledger.id}"}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            entries = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if labels <= set(entries) and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found
