"""Gives back what a command made under a name to be kept at hand: TPUs and clusters alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from runtime.contract.errors import BadInput, Leaked
from tasks.leases.claim import claim
from tasks.leases.holding import Taken
from tasks.leases.inventory import Inventories
from tasks.leases.lease import State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.made import gone_with, made_under, things
from tasks.leases.patience import USUAL
from tasks.leases.resource import ResourceRef
from tasks.leases.shares import users
from tasks.leases.steps import leave
from tasks.leases.stopped import REAP, telling_what_stands


def give_back(
    ledger: Ledger,
    inventories: Inventories,
    lease_name: str,
    name: str,
    *,
    what: str,
    listed_by: str,
    say: Callable[[str], None] = lambda line: None,
    go_on: str = REAP,
) -> Sequence[ResourceRef]:
    """Gives back all that the lease of a name has; returns what went.

    `what` is the thing in words, `listed_by` the command that lists such things, `go_on` says what gives back what is
    left by an interrupt. Raises BadInput when slicebench did not make it, Taken while somebody is making it or a run
    uses it, Leaked.
    """
    lease = latest(ledger, lease_name)
    if lease is None or lease.state is State.GONE:
        raise BadInput(
            f"no lease of this ledger ({ledger.uri}) made {what}",
            fix=f"see {listed_by}: what another made is left alone",
        )
    if used := users(ledger, lease):
        raise Taken(
            f"{name} is used by {', '.join(used)}: wait for it or stop it; if it was killed, slicebench reap gives "
            "back what it had; then delete again"
        )
    for holder in lease.holders:
        lease = ledger.write(leave(lease, holder))
    held = claim(ledger, inventories, lease_name, None, say=say, go_on=go_on)
    before = held.lease
    with telling_what_stands(ledger, before, go_on):
        done = held.release("deleted by name", replace(USUAL, tell=say))
    if done.lease.state is not State.GONE:
        then = "The reaper keeps trying; see `slicebench leases`" if go_on == REAP else go_on
        raise Leaked(f"{name}: {done.lease.note}. {then}")
    return things((*made_under(before), *gone_with(before, done.deleted)))
