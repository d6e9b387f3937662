"""Shares: what another lease made stays while a run uses it, and goes once nobody does."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.labels import labels_for
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.giving_up import GoingAlready, give_up
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import Lease, State
from tasks.leases.reaper import reap
from tasks.leases.shares import share, users


@pytest.fixture
def run(ledger: DirectoryLedger, inventories: Inventories) -> Holding:
    return claim(ledger, inventories, "run", "run")


@pytest.fixture
def tpu(ledger: DirectoryLedger) -> Lease:
    """A lease for capacity that somebody keeps at hand; its time is over."""
    made = steps.live(steps.plan("tpu-mine", None, 1, None, time.time() - 900.0, time.time() - 10.0))
    return ledger.write(made)


def stored(ledger: DirectoryLedger, lease_id: str = "tpu-mine-e1") -> Lease:
    lease = ledger.read(lease_id)
    assert lease is not None
    return lease


def sweep_up(ledger: DirectoryLedger, inventories: Inventories) -> dict[str, str]:
    return {one.lease_id: one.did for one in reap(ledger, inventories, confirm_s=0.0)}


def test_what_is_used_outlives_its_time_and_no_longer(
    run: Holding, tpu: Lease, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    ref = share(run, labels_for("tpu-mine-e1", ledger.id))
    assert ref is not None
    assert share(run, labels_for("tpu-mine-e1", ledger.id)) == ref
    assert (stored(ledger).holders, users(ledger, stored(ledger))) == (("run-e1",), ["run-e1"])
    assert sweep_up(ledger, inventories) == {"run-e1": "kept", "tpu-mine-e1": "kept"}
    with pytest.raises(BadInput, match="shared by run-e1"):
        give_up(ledger, inventories, "tpu-mine")
    assert run.release("over").lease.state is State.GONE
    assert stored(ledger).holders == ()
    assert sweep_up(ledger, inventories) == {"tpu-mine-e1": "released"}


def test_the_reaper_takes_it_from_a_run_that_was_killed(
    run: Holding, tpu: Lease, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    share(run, labels_for("tpu-mine-e1", ledger.id))
    dead = replace(owners.this_process(), pid=4711, started_at=0.5)
    unrecorded = tuple(replace(ref, uid=None) for ref in run.lease.resources)
    ledger.write(replace(stored(ledger, "run-e1"), owner=dead, resources=unrecorded))
    assert sweep_up(ledger, inventories) == {"run-e1": "released", "tpu-mine-e1": "released"}
    assert stored(ledger).holders == ()


def test_what_was_made_without_this_ledger_is_not_shared(
    run: Holding, tpu: Lease, ledger: DirectoryLedger
) -> None:
    assert share(run, {}) is None
    assert share(run, labels_for("tpu-mine-e1", "another")) is None
    assert share(run, labels_for("run-e1", ledger.id)) is None
    assert (stored(ledger).holders, run.lease.resources) == ((), ())


def test_what_is_going_or_unknown_is_refused(run: Holding, tpu: Lease, ledger: DirectoryLedger) -> None:
    with pytest.raises(InfrastructureError, match=r"never-e1, which the ledger .* does not know"):
        share(run, labels_for("never-e1", ledger.id))
    ledger.write(steps.releasing(tpu, owners.this_process(), time.time(), "its time is over"))
    with pytest.raises(InfrastructureError, match="cannot share lease tpu-mine-e1: it is releasing"):
        share(run, labels_for("tpu-mine-e1", ledger.id))
    assert run.release("over").lease.state is State.GONE


def test_what_others_use_is_not_taken_over_by_name(
    run: Holding, tpu: Lease, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    share(run, labels_for("tpu-mine-e1", ledger.id))
    with pytest.raises(BadInput, match="it is used by run-e1"):
        claim_kept(ledger, inventories, "tpu-mine", "other", {})


def test_what_somebody_gives_back_already_is_no_run_to_stop(
    run: Holding, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    with pytest.raises(BadInput, match="stop that run"):
        give_up(ledger, inventories, "run")
    ledger.write(steps.releasing(run.lease, owners.this_process(), time.time(), "asked for"))
    with pytest.raises(
        GoingAlready, match="lease run is just being given back: .*nothing more is to be done"
    ):
        give_up(ledger, inventories, "run")
