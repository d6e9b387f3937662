"""Pull the plug on whole runs on TPU VMs, at every mutating call that the service sees: the reaper leaves nothing."""

# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.ssh import Pool
from tasks.leases.lease import State, is_lock
from tasks.leases.reaper import reap
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tests.chaos.driver import fork_and_play, outcome, soon_enough, took_s
from tests.cloud.tpu.leasing import ZONE, a_ledger
from tests.cloud.tpu.running import Cloud
from tests.cloud.tpu.world import new_node
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.tpu_runs import Bench, bench, hold, inventories_of, machines

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Case:
    """A way to run, and the mutating calls that the service sees of it when nothing goes wrong."""

    calls: list[str]
    config: dict[str, Any] = field(default_factory=dict)
    preempted: bool = False


CASES = {
    "node": Case(["CreateNode", "DeleteNode"], {"slices": 1}),
    "queued resource": Case(["CreateQueuedResource", "DeleteQueuedResource"], {"slices": 1, "queued": True}),
    "two slices": Case(["CreateQueuedResource", "DeleteQueuedResource"], {"slices": 2}),
    "preempted": Case(
        ["CreateNode", "DeleteNode", "CreateNode", "DeleteNode"], {"slices": 1}, preempted=True
    ),
    "existing": Case(["UpdateNode", "UpdateNode"], {"slices": 1, "existing": "mine"}),
}


def play(bench: Bench, case: Case, run_id: str, output: str | None) -> None:
    """Plays all stages; where the case says so the slice is taken away as soon as its worker speaks."""
    bench.pool = Pool()
    workload = "hold" if case.preempted else "succeed"
    run = bench.run(bench.config(**case.config), workload, output, run_id)

    def say(line: str) -> None:
        if case.preempted and "worker 0 of 1" in line and run.spec.env["WORKLOAD"] == "hold":
            run.spec.env["WORKLOAD"] = "succeed"  # type: ignore[index]
            bench.cloud.preempt(f"sb-{run_id}-e1")
            for pid in alive_under(f"{run_id}-e1"):  # they are gone with their machine, some by themselves
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    run = replace(run, say=say)
    image = run.target.image()
    assert image is not None
    holding = hold(run_id)
    try:
        outcome = run_workload(run, upload(run, provision(run, holding), image), holding)
        assert exit_code_of(outcome) == ExitCode.DONE, outcome
    finally:
        teardown(run, holding)


def sweep_up() -> None:
    """Reaps in a process of its own, as a forked one may not share its parent's connections."""
    ledger = a_ledger()
    findings = reap(ledger, inventories_of(ledger))
    assert [found.did for found in findings] == ["released"], findings


@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_every_mutating_call(bench: Bench, tmp_path: Path, name: str) -> None:
    case, cloud = CASES[name], bench.cloud
    others = others_of(cloud, "run-1-e1")
    output = str(tmp_path / "out") if "existing" in case.config else None
    assert outcome(lambda: play(bench, case, "clean", output)) == 0
    assert [one["method"] for one in cloud.mutations()] == case.calls
    took = []
    for nth, method in enumerate(case.calls, start=1):
        for action in ("kill_before", "kill_after"):
            at = (name, nth, method, action)
            run_id = f"run-{nth}-{action.replace('_', '-')}"
            cloud.no_faults()
            cloud.fault("mutating", action, nth=nth)
            assert outcome(lambda run_id=run_id: play(bench, case, run_id, output)) == -signal.SIGKILL, at  # type: ignore[misc]
            cloud.no_faults()
            began = time.monotonic()
            assert outcome(sweep_up) == 0, at
            took.append(took_s(began))
            assert cloud.inventory() == others, at
            assert metadata(cloud, others[1]) == {}, at
            assert alive_under(f"{run_id}-e1") == [], at
            leases = a_ledger().listing().leases
            assert all(lease.state is State.GONE for lease in leases if not is_lock(lease)), at
            assert not any(lease.holders for lease in leases), at
            assert not list((bench.folder / "home").glob(f"runs/{run_id}-*")) or "existing" not in case.config
    assert soon_enough(took), took


def others_of(cloud: Cloud, lease_id: str) -> list[str]:
    """Puts two nodes there: of a lease of this name in another ledger, and of somebody; returns their names."""
    return [other_node(cloud, "foreign", {"slicebench-lease": lease_id}), other_node(cloud, "mine", {})]


def other_node(cloud: Cloud, node: str, labels: dict[str, str]) -> str:
    """Puts a node there that slicebench did not make, or that another ledger's lease made; returns its name."""
    name = f"projects/proj/locations/{ZONE}/nodes/{node}"
    ledger = {"slicebench-ledger": "another"} if labels else {}
    with cloud.store.changing() as world:
        new_node(world, name, ZONE, "v6e-1", {"labels": {**labels, **ledger}}, 0.0)
        if labels:  # it needs no host
            world["nodes"][name].update(state="READY", due=None)
    return name


def metadata(cloud: Cloud, name: str) -> dict[str, str]:
    told: dict[str, str] = cloud.store.read()["nodes"][name]["spec"].get("metadata") or {}
    return told
