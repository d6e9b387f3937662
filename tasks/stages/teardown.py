"""Stage *teardown*: everything made for the run goes back, and we look that it is gone."""

from __future__ import annotations

from runtime.contract.errors import Leaked
from tasks.leases.holding import Holding
from tasks.leases.release import USUAL, Patience, Release
from tasks.stages.context import Run


def teardown(run: Run, lease: Holding, *, patience: Patience = USUAL) -> Release:
    """Returns what was deleted. Raises Leaked, naming what is left, when it cannot be proven gone.

    Raises Fenced when somebody else already releases the lease: then that is their business.
    """
    done = lease.release("the run is over", patience)
    if done.left or done.problems:
        left = [f"{ref.kind} {ref.name} in {ref.scope}" for ref in done.left]
        raise Leaked(
            f"{done.lease.lease_id}: not proven gone: {'; '.join((*left, *done.problems))}. "
            "The reaper keeps trying; see `slicebench leases`, then `slicebench reap`"
        )
    run.say(f"{len(done.deleted)} resources given back, nothing is left")
    run.mark("teardown", lease_id=done.lease.lease_id, deleted=len(done.deleted))
    return done
