"""A cluster for a run: one that is there is used, one that is missing is made, and the last run out gives it back.

What a run makes is a lease of its own, which the runs that use it hold: it stays for as long as one of them lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster
from tasks.cloud.labels import labels_for, read_labels
from tasks.config.cluster import ClusterConfig
from tasks.leases import owner as owners
from tasks.leases.claim import claim, latest
from tasks.leases.clusters import CLUSTER, lease_name
from tasks.leases.holding import Holding, Taken
from tasks.leases.lease import IllegalTransition, Lease, State
from tasks.leases.release import USUAL, Patience, Release, release
from tasks.leases.resource import ResourceRef
from tasks.leases.shares import KIND as SHARE
from tasks.leases.shares import share, users
from tasks.targets.cluster_making import Busy, Say, Works, find
from tasks.targets.cluster_plan import wrong_with
from tasks.targets.cluster_requests import CPU_POOL


@dataclass(frozen=True)
class Wanted:
    """The cluster that a run needs. `create` false: one that is missing is an error."""

    name: str
    config: ClusterConfig
    create: bool = True


class Missing(BadInput):
    """The cluster is not there, and the run may not make it; or it lacks what the run needs."""


def cluster_for(
    holding: Holding,
    container: Container,
    wanted: Wanted,
    *,
    say: Say = lambda line: None,
    poll_s: float = 5.0,
    wait_s: float = 3600.0,
    ask_busy: Busy | None = None,
) -> Cluster:
    """Returns the cluster for the run whose lease is in hand: adopted, or made for it and shared.

    One that another run is just making is waited for. Raises Missing, NotWhole, ContainerError, Taken, Leaked.
    """
    deadline = time.monotonic() + wait_s
    while True:
        there = find(container, wanted.name, wanted.config.location)
        made_by = read_labels(there.labels) if there else None
        foreign = there is not None and (made_by is None or made_by.ledger_id != holding.ledger.id)
        if there is not None and (foreign or _lease_of(holding, container, wanted.name)):
            if foreign:
                _refuse_dead(there)
                _adopt(holding, there)
                if kept := _lease_of(holding, container, wanted.name):  # of slices that were added to it
                    share(holding, labels_for(kept.lease_id, holding.ledger.id))
                return there
            if _joined(holding, there, wanted):
                return there
        else:
            if there is None and not wanted.create:
                raise Missing(
                    f"there is no cluster {wanted.name!r} in {container.project}",
                    fix=f"slicebench cluster create {wanted.name}, or create: if_missing in the target",
                )
            try:
                return _make(holding, container, wanted, say, poll_s, ask_busy)
            except Taken as error:
                if time.monotonic() >= deadline:
                    raise
                say(f"waiting: {error}")
        time.sleep(poll_s)
        holding.check()


def leave_cluster(
    holding: Holding, container: Container, name: str, patience: Patience = USUAL
) -> Release | None:
    """Gives a cluster back that was made for runs, when nobody shares it any more; None: somebody does, or it is kept.

    To be called once the run's own lease is given back; whoever is killed before leaves it to the reaper.
    """
    lease = latest(holding.ledger, lease_name(container.project, name))
    if lease is None or lease.run_id is None or lease.stands or lease.owner is not None:
        return None
    if lease.state is State.GONE or users(holding.ledger, lease):
        return None
    return release(
        holding.ledger,
        lease,
        holding.inventories,
        owners.this_process(),
        "the last run that used it is over",
        patience=patience,
    )


def _lease_of(holding: Holding, container: Container, name: str) -> Lease | None:
    """Returns the lease of a cluster that is whole, and on which nobody works."""
    lease = latest(holding.ledger, lease_name(container.project, name))
    return lease if lease is not None and lease.state is State.LIVE and lease.owner is None else None


def _joined(holding: Holding, there: Cluster, wanted: Wanted) -> bool:
    """Takes a cluster of this ledger that is whole: it stays for as long as the run does. False: it is going."""
    _refuse_dead(there)
    _refuse_unfit(there, wanted)
    try:
        return share(holding, there.labels) is not None
    except IllegalTransition:
        for ref in [ref for ref in holding.lease.resources if ref.kind == SHARE and ref.uid is None]:
            holding.discard(ref)
        return False


def _adopt(holding: Holding, there: Cluster) -> ResourceRef:
    return holding.adopt(CLUSTER, f"{there.project}/{there.location}", there.name, there.uid)


def _refuse_dead(there: Cluster) -> None:
    """Raises Missing for a cluster that does not work."""
    if there.state in ("ERROR", "STOPPING"):
        raise Missing(f"cluster {there.name} is {there.state}{f': {there.why}' if there.why else ''}")


def _refuse_unfit(there: Cluster, wanted: Wanted) -> None:
    """Raises Missing for a cluster that lacks slices of the type: a run changes none that others use."""
    shape = wanted.config.shape
    if shape is None or (shape.kind == "cpu" and not shape.machine_type):
        return
    fitting = [pool for pool in there.pools if pool.machine_type == shape.machine_type]
    good = [pool for pool in fitting if not wrong_with(pool, wanted.config, shape) and pool.name != CPU_POOL]
    needed = 1 if wanted.config.counts_nodes else wanted.config.slices
    if len(good) < needed:
        why = "; ".join(
            f"{pool.name}: {wrong_with(pool, wanted.config, shape)}" for pool in fitting if pool not in good
        )
        raise Missing(
            f"cluster {there.name} has {len(good)} of the {needed} node pools of {wanted.config.type} that are needed"
            + (f" ({why})" if why else ""),
            fix=f"slicebench cluster resize {there.name}, another cluster, or fewer slices",
        )


def _make(
    holding: Holding,
    container: Container,
    wanted: Wanted,
    say: Say,
    poll_s: float,
    ask_busy: Busy | None,
) -> Cluster:
    """Makes the cluster under a lease of its own, which this run's holds from the beginning.

    So whoever dies when: with the last run that holds it, it goes.
    """
    run = holding.lease
    own = claim(
        holding.ledger,
        holding.inventories,
        lease_name(container.project, wanted.name),
        run.run_id or run.lease_id,
        folder=run.folder,
        say=say,
    )
    try:
        share(holding, labels_for(own.lease.lease_id, own.ledger.id))
        with own.renewing():
            works = Works(container, own, wanted.name, wanted.config, say, poll_s, ask_busy=ask_busy)
            works.settle()
            there = works.look()
            planned = works.plan(there)
            works.check()
            made = works.carry_out(planned, there)
            own.live()
            # It is over at once, but for those who hold it.
            own.detach(time.time())
    except BaseException as error:
        _undo(holding, own, say)
        if isinstance(error, Taken):
            raise InfrastructureError(str(error)) from error
        raise
    return made


def _undo(holding: Holding, own: Holding, say: Callable[[str], None]) -> None:
    """Gives back what is half made, and the run's hold on it first: nothing that is held can be given back."""
    own.check()
    for ref in [ref for ref in holding.lease.resources if ref.name == own.lease.lease_id]:
        holding.discard(ref)
    own.check()
    if own.lease.holders:  # another run's, that was killed: with it the cluster goes
        own.detach(time.time())
        return
    done = own.release("it was not made whole")
    if done.lease.state is not State.GONE:
        say(f"not proven gone: {done.lease.note}; see `slicebench leases`, then `slicebench reap`")
