"""Giving back what was not made whole, where it fails or is itself interrupted: what stands then is told as leaked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.contract.errors import Leaked
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger
from tasks.leases.made import made_under, things, told
from tasks.leases.release import Release
from tasks.leases.shares import shared_by, users

REAP = "see `slicebench leases`, then `slicebench reap`"
"""What goes on where a lease goes by itself."""


@contextmanager
def telling_what_stands(ledger: Ledger, lease: Lease, go_on: str = REAP) -> Iterator[None]:
    """Around giving back what a lease has: a Ctrl-C within raises Leaked where that leaves something.

    `go_on` says to people what gives back what is left.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        left = left_standing(ledger, lease, go_on)
        if left is None:
            raise
        raise left from error


def refuse_unproven(done: Release, ended_by: BaseException, go_on: str = REAP) -> None:
    """Raises Leaked where what was given back, after something failed or was interrupted, is not proven gone."""
    if done.lease.state is State.GONE:
        return
    why = f"{ended_by}; " if isinstance(ended_by, Exception) else ""
    raise Leaked(f"{why}not proven gone: {done.lease.note}; {go_on}") from ended_by


def left_standing(ledger: Ledger, before: Lease, go_on: str = REAP) -> Leaked | None:
    """Returns an error that names what a lease, as it was before it was given back, still has; None: nothing.

    What the lease shares counts where nobody else uses it: it was to go as well.
    """
    refs = [*made_under(before)]
    found = ledger.read(before.lease_id)
    if found is not None:
        refs = [] if found.state is State.GONE else [*made_under(found)]
    for shared in shared_by(before):
        one = ledger.read(shared)
        if one is None or one.state is State.GONE or one.run_id is None or one.stands:
            continue
        if set(users(ledger, one)) <= {before.lease_id}:
            refs += made_under(one)
    if not refs:
        return None
    gives = "`slicebench reap` gives back what is left" if go_on == REAP else go_on
    return Leaked(
        f"interrupted while things were given back: {told(things(refs))} may still be there; {gives}"
    )
