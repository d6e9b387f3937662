"""A run's lease: held while its stages run, given back by whoever finds that the run cannot do so itself any more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.contract.errors import Leaked
from tasks.leases import owner as owners
from tasks.leases.claim import claim
from tasks.leases.death import record_death
from tasks.leases.holding import Holding
from tasks.leases.judging import CONFIRM_S, judge_from_here, watch
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import State
from tasks.leases.ledger import Conflict, latest
from tasks.leases.opening import the_inventories, the_ledger
from tasks.leases.release import release
from tasks.leases.shares import last_out, shared_by
from tasks.stages.context import Run
from tasks.stages.provision import shape_of

_STANDING = (State.PLANNED, State.CREATING, State.LIVE)


@contextmanager
def hold(run: Run) -> Iterator[Holding]:
    """Claims the run's lease and renews it while the block runs. Releasing it is for teardown, within the block."""
    ledger = the_ledger()
    inventories = the_inventories(ledger)
    run_id, folder = run.spec.run_id, run.folder.uri
    if run.spec.lease is None:
        lease = claim(ledger, inventories, run_id, run_id, folder=folder, say=run.say)
    else:
        shape = shape_of(run)
        lease = claim_kept(ledger, inventories, run.spec.lease, run_id, shape, folder=folder, say=run.say)
    with lease.renewing():
        yield lease


def is_held(run_id: str, name: str) -> bool:
    """Whether a run has its lease of this name and its process lives, as far as can be known from here."""
    lease = latest(the_ledger(), name)
    if lease is None or lease.run_id != run_id or lease.state not in _STANDING:
        return False
    return judge_from_here(lease, time.time(), ended=True).act == "keep"


def release_run(
    run_id: str,
    name: str,
    why: str,
    *,
    confirm_s: float = CONFIRM_S,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Releases what a run still has under the lease of this name, unless its owner lives: then it is that
    process's own business. An owner of whom nothing can be known from here lives while it renews.

    Raises Leaked when something could not be proven gone.
    """
    log = logging.getLogger(__name__)
    ledger = the_ledger()
    lease = latest(ledger, name)
    if lease is None or lease.run_id != run_id:
        return
    if lease.state is State.GONE or lease.owner is None:
        # Without an owner: kept on purpose, or leaked, which is the reaper's.
        record_death(lease)
        return
    if not owners.is_this_process(lease.owner):
        judged = [(lease, judge_from_here(lease, now(), ended=True))]
        [(_, verdict)] = watch(ledger, judged, confirm_s, sleep)
        if verdict.act == "keep":
            log.warning(
                "%s is left to %s, or to the reaper once it falls silent: %s",
                lease.lease_id, lease.owner, verdict.why,
            )  # fmt: skip
            return
    inventories = the_inventories(ledger)
    try:
        done = release(ledger, lease, inventories, owners.this_process(), why)
    except Conflict as error:
        log.warning("%s is left to whoever else is at it: %s", lease.lease_id, error)
        return
    ends = [done, *(last_out(ledger, inventories, one) for one in shared_by(lease))]
    if any(end is not None and end.lease.state is not State.GONE for end in ends):
        done = next(end for end in ends if end is not None and end.lease.state is not State.GONE)
        raise Leaked(f"{lease.lease_id}: {done.lease.note}; see `slicebench leases`, then `slicebench reap`")
