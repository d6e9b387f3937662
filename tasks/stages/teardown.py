"""Stage *teardown*: everything made for the run goes back, and we look that it is gone; or it is kept, for a time."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

from runtime.contract.errors import BadInput, Leaked
from tasks.config.duration import in_words
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.holding import Holding
from tasks.leases.keeping import by_list_prices, keep
from tasks.leases.lease import Lease, State
from tasks.leases.made import made_under, things, told
from tasks.leases.patience import USUAL, Patience
from tasks.leases.release import Release
from tasks.leases.resource import ResourceRef, outermost
from tasks.leases.shares import keep_shared, last_out, shared_by
from tasks.leases.staying import beside, what_stands
from tasks.leases.tpus import NODE, QUEUED
from tasks.stages.context import Run
from tasks.stages.provision import shape_of


def teardown(run: Run, lease: Holding, *, failed: bool = False, patience: Patience = USUAL) -> Release:
    """Returns what was deleted. Raises Leaked, naming what is left, when it cannot be proven gone.

    Where the request says so, for a run that `failed` or for any, hardware is kept until its time is over, and
    it is said what that costs. Raises Fenced when somebody else already releases the lease: then that is their
    business.
    """
    patience = replace(patience.within(_limit_of(run)), tell=run.say)
    wanted = run.spec.keep == "always" or (run.spec.keep == "on_failure" and failed)
    if wanted and _kept(run, lease, patience):
        return Release(lease=lease.lease)
    over = lease.lease.state is State.GONE
    # What has ended by itself goes back too: it was planned and made, and now we look that it is gone.
    made = [*made_under(lease.lease)]
    shared = shared_by(lease.lease)
    if wanted:
        _keep_shared(run, lease, shared)
    done = lease.release("the run is over", patience)
    ends = [end for one in shared if (end := last_out(lease.ledger, lease.inventories, one, patience))]
    if ends and done.lease.state is not State.GONE:  # what could not be looked at may have gone with that
        done = lease.release("the run is over", patience)
    made += [ref for end in ends for ref in made_under(end.lease)]
    _refuse_leaks([done, *ends])
    _tell_end(run, lease, things(made), over=over)
    run.mark("teardown", lease_id=done.lease.lease_id, deleted=len(done.deleted))
    return done


def _tell_end(run: Run, lease: Holding, made: Sequence[ResourceRef], *, over: bool) -> None:
    """Says what was given back, and what of the cluster that the run was for stands all the same."""
    standing = [one for one in beside(lease.ledger, _planned(run)) if not _is_kept_for_good(one)]
    if over:
        run.say("everything was given back before")
    elif standing:
        run.say(f"{told(made)} given back" if made else "nothing of the run's own was there to be given back")
    else:
        run.say(f"{told(made)} given back, nothing is left" if made else "nothing was made, nothing is left")
    for one in standing:
        run.say(what_stands(one, run.plan.price_per_hour, run.spec.run_id))


def _planned(run: Run) -> Sequence[ResourceRef]:
    """Returns what the run was to have; nothing for one that was refused since its suite does not fit the target."""
    try:
        return run.plan.resources
    except BadInput:
        return ()


def _is_kept_for_good(lease: Lease) -> bool:
    """Whether somebody keeps it on purpose, as before: a cluster that the run just used."""
    return lease.owner is None and lease.run_id is None


def _refuse_leaks(ends: Sequence[Release]) -> None:
    """Raises Leaked, naming what is left, for what could not be proven gone."""
    told = []
    for done in ends:
        if done.left or done.problems:
            left = [f"{ref.kind} {ref.name} in {ref.scope}" for ref in done.left]
            told.append(f"{done.lease.lease_id}: not proven gone: {'; '.join((*left, *done.problems))}")
    if told:
        more = "The reaper keeps trying; see `slicebench leases`, then `slicebench reap`"
        raise Leaked(f"{'; '.join(told)}. {more}")


def _limit_of(run: Run) -> float | None:
    """Returns the time limit that the target has for this; None: as what was made needs."""
    target = run.spec.target
    return target.limits.teardown_s if isinstance(target, TpuVmTargetConfig) else None


def _way_in(run: Run, ref: ResourceRef) -> str:
    """Returns how people get into something that is kept; empty where it is no machine."""
    target = run.spec.target
    if not isinstance(target, TpuVmTargetConfig) or ref.kind not in (NODE, QUEUED):
        return ""
    flags = [] if target.addresses == "external" else [f"--{target.addresses}"]
    port = [] if target.ssh_port == 22 else ["--port", str(target.ssh_port)]
    zone, project = ref.scope.partition("/")[2], ref.scope.partition("/")[0]
    words = ["slicebench", "tpu", "ssh", ref.name, *flags, *port, "--zone", zone, "--project", project]
    return f"; get into it with: {shlex.join(words)}"


def _kept(run: Run, lease: Holding, patience: Patience) -> bool:
    """Keeps hardware and says so; returns whether there was any that could be kept."""
    until = time.time() + run.spec.keep_for_s
    staying = keep(lease, run.plan.keepable, until, patience)
    name = lease.lease.name
    if not staying:
        if not shared_by(lease.lease):
            run.say(f"--keep {run.spec.keep}: there is nothing whole to keep")
        return False
    _tell_kept(run, staying, name, until, lease.lease.price_per_hour)
    run.mark("teardown", lease_id=lease.lease.lease_id, kept=[ref.name for ref in staying], until=until)
    return True


def _keep_shared(run: Run, lease: Holding, shared: Sequence[str]) -> None:
    """Keeps what was made for runs to share, and says so: a cluster, whoever else uses it now."""
    if not shared or not set(run.plan.keepable):
        return
    until = time.time() + run.spec.keep_for_s
    for one in shared:
        kept = keep_shared(lease.ledger, one, until, shape_of(run), run.plan.price_per_hour)
        if kept is not None:
            staying = [ref for ref in outermost(kept.resources) if ref.ours]
            _tell_kept(run, staying, kept.name, kept.expires_at or until, kept.price_per_hour)


def _tell_kept(
    run: Run, staying: Sequence[ResourceRef], name: str, until: float, price_per_hour: float | None
) -> None:
    for ref in staying:
        run.say(f"kept: {ref.kind} {ref.name} in {ref.scope}" + _way_in(run, ref))
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until))
    run.say(f"kept for {in_words(run.spec.keep_for_s)}, until {when}: {by_list_prices(price_per_hour)}")
    run.say(f"use it again with --lease {name}; delete it now with: slicebench reap --lease {name}")
