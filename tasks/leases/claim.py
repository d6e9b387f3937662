"""How a run gets its lease: a new one, the one it had, or the next epoch once the last is proven gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from runtime.contract.errors import Leaked
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.death import record_death
from tasks.leases.holding import TERM_S, Holding, Taken
from tasks.leases.inventory import Inventories
from tasks.leases.judging import CONFIRM_S, judge_from_here, watch
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Conflict, Ledger, latest
from tasks.leases.patience import USUAL, Patience
from tasks.leases.release import release
from tasks.leases.stopped import REAP


def claim(
    ledger: Ledger,
    inventories: Inventories,
    name: str,
    run_id: str | None,
    *,
    folder: str = "",
    now: Callable[[], float] = time.time,
    term_s: float = TERM_S,
    patience: Patience = USUAL,
    confirm_s: float = CONFIRM_S,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda line: None,
    go_on: str = REAP,
) -> Holding:
    """Takes the lease of this name for this process, and writes that down before anything is made.

    `folder` is the run's; where the process that held the lease before was killed, it is told there.

    A lease whose owner lives raises Taken and says who it is; one whose owner is gone, or that is kept
    without an owner, is taken over; one that is being released is released to the end, and the next epoch
    begins. An owner elsewhere counts as gone once its lease expired and is not renewed within `confirm_s` seconds,
    before our eyes: clocks differ. `say` hears that this takes a while; `go_on`
    says to people what gives back what cannot be cleared away now.
    Raises Unwritable when the ledger cannot be written, Leaked when the last epoch cannot be cleared
    away.
    """
    owner = owners.this_process()
    last = latest(ledger, name)
    if last is not None:
        _refuse_if_alive(ledger, last, now(), confirm_s, sleep, say)
    if last and last.state in (State.RELEASING, State.LEAKED):
        last = _finish(ledger, last, inventories, replace(patience, tell=say), now, go_on)
    at = now()
    if last is None or last.state is State.GONE:
        taken = steps.plan(name, run_id, last.epoch + 1 if last else 1, owner, at, at + term_s)
    else:
        taken = steps.take(last, owner, at, at + term_s)
    try:
        stored = ledger.write(steps.serve(taken, run_id, folder))
    except Conflict as error:
        raise Taken(f"{name} was taken by another process at this very moment: {error}") from error
    if last is not None:
        record_death(last)
    return Holding(ledger, stored, inventories, now=now, term_s=term_s)


def _refuse_if_alive(
    ledger: Ledger,
    lease: Lease,
    now: float,
    confirm_s: float,
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> None:
    """Raises Taken unless the lease has no owner, or it is this process or proven gone."""
    owner = lease.owner
    if owner is None or owners.is_this_process(owner):
        return
    # Who shares it says nothing about its owner.
    verdict = judge_from_here(replace(lease, holders=()), now)
    renewed = f"renewed {max(0.0, now - lease.renewed_at):.0f} s ago"
    if verdict.act == "watch":
        say(f"{lease.name} was {owner}'s, and {verdict.why}: watching it for {confirm_s:.0f} s")
        [(_, verdict)] = watch(ledger, [(lease, verdict)], confirm_s, sleep)
        renewed = "renewed just now, though its clock or ours is wrong"
    if verdict.act == "keep":
        known = owners.is_alive(owner)
        raise Taken(
            f"{lease.name} is held by {owner}, {renewed}: wait for it or stop it"
            + ("" if known else "; it is on another machine, where only its expiry can tell that it is dead")
        )


def _finish(
    ledger: Ledger,
    lease: Lease,
    inventories: Inventories,
    patience: Patience,
    now: Callable[[], float],
    go_on: str,
) -> Lease:
    """Releases to the end what somebody began to release."""
    done = release(
        ledger,
        lease,
        inventories,
        owners.this_process(),
        "the run is tried again",
        patience=patience,
        now=now,
    )
    if done.lease.state is not State.GONE:
        raise Leaked(f"what {lease.name} made before could not be cleared away: {done.lease.note}; {go_on}")
    return done.lease
