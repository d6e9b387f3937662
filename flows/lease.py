"""A run's lease: held while its stages run, given back by whoever finds that the run cannot do so itself any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.contract.errors import Leaked
from tasks.config.home import ledger_uri, scratch_folder
from tasks.leases import owner as owners
from tasks.leases.claim import claim, latest
from tasks.leases.death import tell_death
from tasks.leases.holding import Holding
from tasks.leases.inventory import open_inventories
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import State
from tasks.leases.opening import open_ledger
from tasks.leases.release import release
from tasks.stages.context import Run
from tasks.stages.provision import shape_of


@contextmanager
def hold(run: Run) -> Iterator[Holding]:
    """Claims the run's lease and renews it while the block runs. Releasing it is for teardown, within the block."""
    ledger = open_ledger(ledger_uri())
    inventories = open_inventories(ledger, scratch_folder())
    run_id, folder = run.spec.run_id, run.folder.uri
    if run.spec.lease is None:
        lease = claim(ledger, inventories, run_id, run_id, folder=folder)
    else:
        lease = claim_kept(ledger, inventories, run.spec.lease, run_id, shape_of(run), folder=folder)
    with lease.renewing():
        yield lease


def release_run(run_id: str, name: str, why: str) -> None:
    """Releases what a run still has under the lease of this name, unless its owner lives: then it is that
    process's own business.

    Raises Leaked when something could not be proven gone.
    """
    ledger = open_ledger(ledger_uri())
    lease = latest(ledger, name)
    if lease is None or lease.run_id != run_id:
        return
    if lease.state is State.GONE or lease.owner is None:
        # Without an owner: kept on purpose, or leaked, which is the reaper's.
        tell_death(lease)
        return
    if owners.is_alive(lease.owner) and not owners.is_this_process(lease.owner):
        logging.getLogger(__name__).warning("%s is left to %s, which lives", lease.lease_id, lease.owner)
        return
    done = release(ledger, lease, open_inventories(ledger, scratch_folder()), owners.this_process(), why)
    if done.lease.state is not State.GONE:
        raise Leaked(f"{lease.lease_id}: {done.lease.note}; see `slicebench leases`, then `slicebench reap`")
