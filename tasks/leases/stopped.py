"""Giving back that was itself interrupted: what stands then, for whoever did not want to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.contract.errors import Leaked
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger
from tasks.leases.made import made_under, things, told
from tasks.leases.shares import shared_by, users


@contextmanager
def telling_what_stands(ledger: Ledger, lease: Lease) -> Iterator[None]:
    """Around giving back what a lease has: a Ctrl-C within raises Leaked where that leaves something."""
    try:
        yield
    except KeyboardInterrupt as error:
        left = left_standing(ledger, lease)
        if left is None:
            raise
        raise left from error


def left_standing(ledger: Ledger, before: Lease) -> Leaked | None:
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
    return Leaked(
        f"interrupted while things were given back: {told(things(refs))} may still be there; `slicebench reap` gives "
        "back what is left"
    )
