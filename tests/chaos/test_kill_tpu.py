"""Pull the plug before and after every mutating call that Cloud TPU sees: the reaper leaves nothing of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tasks.cloud.tpu import CloudTpu
from tasks.config.home import scratch_folder
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.claim import claim
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.stages.tpus import Office, create, delete
from tasks.targets.tpu_capacity import Desk
from tests.chaos.driver import outcome, soon_enough, took_s
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.cloud.tpu.world import new_node

NODE_CALLS = ["CreateNode", "CreateNode", "DeleteNode"]
"""The node of the first zone vanishes by itself."""
QUEUED_CALLS = [
    "CreateQueuedResource",
    "DeleteQueuedResource",
    "CreateQueuedResource",
    "DeleteQueuedResource",
]


def play(run_id: str, slices: int) -> None:
    """Gets slices (the first zone has no room), and gives them back."""
    ledger = a_ledger()
    holding = claim(ledger, quick_inventories(ledger), run_id, run_id)
    try:
        Desk(CloudTpu("proj", timing=QUICK), config(slices), holding, poll_s=0.02).acquire()
        holding.live()
    finally:
        assert holding.release("the run is over").lease.state is State.GONE


def keep_and_delete(name: str, slices: int) -> None:
    """Does what `tpu create` and `tpu delete` do (the first zone has no room)."""
    ledger = a_ledger()
    office = Office(
        CloudTpu("proj", timing=QUICK), ledger, quick_inventories(ledger), scratch_folder(), poll_s=0.02
    )
    assert create(office, name, config(slices), ttl_s=3600.0).lease_id == f"tpu-{name}-e1"
    delete(office, name)


def config(slices: int) -> TpuVmTargetConfig:
    """Returns what is asked for: the first zone is given up soon."""
    fields = {
        "kind": "tpu_vm",
        "zones": [ZONE, "us-east5-a"],
        "type": "v6e-4",
        "slices": slices,
        "python": "/p",
    }
    return TpuVmTargetConfig.model_validate({**fields, "limits": {"queue_s": 0.3}})


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("slices", "calls"), [(1, NODE_CALLS), (2, QUEUED_CALLS)])
@pytest.mark.parametrize(("play", "lease_name"), [(play, "{}"), (keep_and_delete, "tpu-{}")])
def test_killed_before_and_after_every_mutating_call(
    tpu_cloud: Cloud, slices: int, calls: list[str], play: Callable[[str, int], None], lease_name: str
) -> None:
    foreign = foreign_node(tpu_cloud)
    tpu_cloud.set(stockouts=[ZONE])
    assert outcome(lambda: play("clean", slices)) == 0
    assert [one["method"] for one in tpu_cloud.mutations()] == calls
    took = []
    for nth, method in enumerate(calls, start=1):
        for action in ("kill_before", "kill_after"):
            run_id = f"run-{nth}-{action.replace('_', '-')}"
            tpu_cloud.no_faults()
            tpu_cloud.fault("mutating", action, nth=nth)
            assert outcome(lambda run_id=run_id: play(run_id, slices)) == -signal.SIGKILL, (  # type: ignore[misc]
                method,
                action,
            )
            tpu_cloud.no_faults()
            begin = time.monotonic()
            assert outcome(sweep_up) == 0, (method, action)
            assert tpu_cloud.inventory() == [foreign], (method, action)
            took.append(took_s(begin))
            lease = a_ledger().read(f"{lease_name.format(run_id)}-e1")
            assert lease is not None and lease.state is State.GONE, (method, action)
    assert soon_enough(took), took


@pytest.mark.chaos
def test_killed_while_it_waits_and_tried_again(tpu_cloud: Cloud) -> None:
    """The second try of a run takes over what the first one made, and gives it back."""
    tpu_cloud.set(stockouts=[ZONE])
    tpu_cloud.fault("mutating", "kill_after", nth=QUEUED_CALLS.index("DeleteQueuedResource") + 2)
    assert outcome(lambda: play("run-1", 2)) == -signal.SIGKILL
    tpu_cloud.no_faults()
    assert len(tpu_cloud.inventory()) > 0
    assert outcome(lambda: play("run-1", 2)) == 0
    assert tpu_cloud.inventory() == []


def foreign_node(cloud: Cloud) -> str:
    """Puts a node there that another ledger's lease made; returns its name."""
    name = f"projects/proj/locations/{ZONE}/nodes/foreign"
    labels = {"slicebench-lease": "run-1-kill-before-e1", "slicebench-ledger": "another"}
    with cloud.store.changing() as world:
        node = new_node(world, name, ZONE, "v6e-4", {"labels": labels}, 0.0)
        node.update(state="READY", due=None)
    return name


def sweep_up() -> None:
    """Runs the reaper in a process of its own, as a forked one may not share its parent's connections."""
    ledger = a_ledger()
    findings = reap(ledger, quick_inventories(ledger))
    assert [found.did for found in findings] == ["released"], findings
