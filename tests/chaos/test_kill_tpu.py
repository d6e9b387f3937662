"""Pull the plug before and after every mutating call that Cloud TPU sees: the reaper leaves nothing of it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tasks.cloud.tpu import CloudTpu
from tasks.leases.claim import claim
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tests.chaos.driver import fork_and_play
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, make_node, make_queued, quick_inventories
from tests.cloud.tpu.running import Cloud, tpu_cloud, tpu_server  # noqa: F401
from tests.waiting import until

WITHIN_S = 30.0


def play(run_id: str) -> None:
    """Makes a node and a queued resource of two slices, waits for them, gives them back."""
    ledger = a_ledger()
    holding = claim(ledger, quick_inventories(ledger), run_id, run_id)
    tpu = CloudTpu("proj", timing=QUICK)
    make_node(holding, f"{run_id}-n")
    make_queued(holding, f"{run_id}-q")
    until(lambda: tpu.node(ZONE, f"{run_id}-n").state == "READY")
    until(lambda: tpu.queued_resource(ZONE, f"{run_id}-q").state == "ACTIVE")
    holding.live()
    assert holding.release("the run is over").lease.state is State.GONE


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_killed_before_and_after_every_mutating_call(tpu_cloud: Cloud) -> None:  # noqa: F811
    with tpu_cloud.store.changing() as world:
        foreign = f"projects/proj/locations/{ZONE}/nodes/foreign"
        world["nodes"][foreign] = {
            "zone": ZONE, "kind": "v6e-4", "spec": {"labels": {"slicebench-lease": "x", "slicebench-ledger": "y"}},
            "state": "READY", "created": 0.0, "due": None, "id": 1, "hosts": [], "queued": None, "multislice": False,
        }  # fmt: skip
    code = os.waitstatus_to_exitcode(os.waitpid(fork_and_play(lambda: play("clean")), 0)[1])
    calls = [one["method"] for one in tpu_cloud.mutations()]
    assert (code, sorted(calls)) == (
        0,
        ["CreateNode", "CreateQueuedResource", "DeleteNode", "DeleteQueuedResource"],
    )
    for nth, method in enumerate(calls, start=1):
        for action in ("kill_before", "kill_after"):
            run_id = f"run-{nth}-{action.replace('_', '-')}"
            tpu_cloud.no_faults()
            tpu_cloud.fault("mutating", action, nth=nth)
            pid = fork_and_play(lambda run_id=run_id: play(run_id))  # type: ignore[misc]
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (method, action)
            tpu_cloud.no_faults()
            begin = time.monotonic()
            code = os.waitstatus_to_exitcode(os.waitpid(fork_and_play(sweep_up), 0)[1])
            assert code == 0, (method, action)
            assert tpu_cloud.inventory() == [foreign], (method, action)
            assert time.monotonic() - begin < WITHIN_S, (method, action)
            lease = a_ledger().read(f"{run_id}-e1")
            assert lease is not None and lease.state is State.GONE, (method, action)


def sweep_up() -> None:
    """Runs the reaper in a process of its own, as a forked one may not share its parent's connections."""
    ledger = a_ledger()
    findings = reap(ledger, quick_inventories(ledger))
    assert [found.did for found in findings] == ["released"], findings
