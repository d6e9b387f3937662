"""A cluster for a run: one that is there is used, one that is missing is made, and the last run out gives it back.

What a run makes is a lease of its own, which the runs that use it hold: it stays for as long as one of them lives. The
same goes for node pools that runs add to a cluster that was there; the cluster itself stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.labels import labels_for, read_labels
from tasks.leases.claim import claim
from tasks.leases.clusters import CLUSTER, lease_name
from tasks.leases.holding import Holding, Taken
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.queues import queue_of
from tasks.leases.shares import KIND as SHARE
from tasks.leases.shares import share
from tasks.leases.steps import IllegalTransition
from tasks.leases.stopped import refuse_unproven
from tasks.targets.cluster_find import find
from tasks.targets.cluster_fit import short_of
from tasks.targets.cluster_making import Say, Works
from tasks.targets.cluster_wanted import Missing, Wanted, lacks, not_there, refuse_dead, refuse_unfit


@dataclass(frozen=True)
class Ways:
    """How a cluster is got. `ready` makes one that can be used of one that was made; with the lease of what was
    added, where that is apart.

    `apart` says of a cluster of others that what is added to it has a queue of its own: then a run uses either their
    machines or ours, for no queue has both.

    Seconds: `poll_s` between looks, `wait_s` at most for others who work on it, `limit_s` at most for its making.
    """

    say: Say = lambda line: None
    poll_s: float = 5.0
    wait_s: float = 3600.0
    limit_s: float | None = None
    ready: Callable[[Cluster, Holding | None], None] = field(default=lambda cluster, own: None)
    apart: Callable[[Cluster], bool] = field(default=lambda cluster: False)


_AGAIN_S = 60.0
"""After so long it is said again what is waited for, and then half as often each time."""


def cluster_for(
    holding: Holding,
    container: Container,
    wanted: Wanted,
    ways: Ways | None = None,
) -> Cluster:
    """Returns the cluster for the run whose lease is in hand: adopted, or made for it and shared.

    One that another is just making is waited for. Raises Missing, NotWhole, ContainerError, Taken, Leaked.
    """
    ways = ways or Ways()
    deadline = time.monotonic() + ways.wait_s
    told = _Told(ways.say)
    while True:
        try:
            there = _tried(holding, container, wanted, ways)
            if there is not None:
                return there
            by, why = "", f"cluster {wanted.name} is being made or deleted by somebody else"
        except Taken as error:
            by, why = "taken", f"{error}; what it makes is shared"
            if time.monotonic() >= deadline:
                raise
        if time.monotonic() >= deadline:
            raise InfrastructureError(f"{why}: that takes more than {ways.wait_s:.0f} s")
        told.waiting(by, why)
        time.sleep(ways.poll_s)
        holding.check()


class _Told:
    """Says what is waited for: at once where that is another than before, and again after a minute, two, four."""

    def __init__(self, say: Say) -> None:
        self._say, self._pause_s, self._next = say, _AGAIN_S, 0.0
        self._by: str | None = None

    def waiting(self, by: str, why: str) -> None:
        """`by` is the same for as long as the same is waited for, whatever `why` counts."""
        now = time.monotonic()
        if by == self._by and now < self._next:
            return
        self._pause_s = 2 * self._pause_s if by == self._by else _AGAIN_S
        self._by, self._next = by, now + self._pause_s
        self._say(f"waiting: {why}")


def _tried(holding: Holding, container: Container, wanted: Wanted, ways: Ways) -> Cluster | None:
    """Returns the cluster, or None when it is changing: look again."""
    there = find(container, wanted.name, wanted.where)
    lease = _held(holding.ledger, container, wanted.name)
    if lease is not None and lease.lease_id == holding.lease.lease_id:  # kept, and taken to be used again
        return _again(there, wanted)
    whole = _whole(lease)
    if there is None:
        if not wanted.create:
            raise not_there(container, wanted)
        return _make(holding, container, wanted, ways)
    if _is_made_by(there, holding.ledger):
        if whole is None:
            return _make(holding, container, wanted, ways)
        return there if _joined(holding, there, wanted) else None
    return _of_others(holding, container, there, whole, wanted, ways)


def _of_others(
    holding: Holding, container: Container, there: Cluster, whole: Lease | None, wanted: Wanted, ways: Ways
) -> Cluster | None:
    """Adopts a cluster that was there, and adds the node pools that it lacks."""
    refuse_dead(there)
    if there.state == "PROVISIONING":
        return None
    theirs = [pool for pool in there.pools if not _is_ours(holding, pool)]
    if there.autoprovisions or not short_of(theirs, wanted.needs).count:
        # Nobody gets onto machines that have a queue of their own without meaning to.
        return _used(holding, there, None if queue_of(whole) else whole)
    apart = _are_apart(there, whole, ways)
    beside = [] if apart else theirs
    # What other runs added goes with the last of them: it counts where this run can hold it.
    added = [pool for pool in there.pools if whole is not None and _is_ours(holding, pool)]
    lacking = short_of([*beside, *added], wanted.needs)
    if not lacking.count:
        return _used(holding, there, whole)
    if not wanted.create or (whole is not None and whole.stands):
        raise lacks(there, lacking.told)
    if wanted.config is None:
        raise wanted.why_not or lacks(there, lacking.told)
    ours = short_of(beside, wanted.needs).count
    size = {"nodes": ours} if wanted.config.counts_nodes else {"slices": ours}
    more = replace(wanted, config=wanted.config.model_copy(update=size))
    _adopt(holding, there)
    return _make(holding, container, more, ways, apart=apart)


def _used(holding: Holding, there: Cluster, added: Lease | None) -> Cluster | None:
    """Adopts a cluster as it is, and shares the lease of what was `added`, if any; None: that one is going."""
    if added is not None:
        try:
            share(holding, labels_for(added.lease_id, holding.ledger.id))
        except IllegalTransition:
            _take_back(holding)
            return None
    _adopt(holding, there)
    return there


def _are_apart(there: Cluster, whole: Lease | None, ways: Ways) -> bool:
    """Whether what is added has a queue of its own: as the runs before have it, else as this one wants it."""
    return ways.apart(there) if whole is None else queue_of(whole) is not None


def _held(ledger: Ledger, container: Container, name: str) -> Lease | None:
    """Returns the lease of a cluster, or of what was added to one, that is not being given back."""
    lease = latest(ledger, lease_name(container.project, name))
    return lease if lease is not None and lease.state in HELD else None


def _whole(lease: Lease | None) -> Lease | None:
    """Returns the lease of what was made for runs, if nobody is at it: neither making nor giving back."""
    return lease if lease is not None and lease.state is State.LIVE and lease.owner is None else None


def _is_made_by(there: Cluster, ledger: Ledger) -> bool:
    labelled = read_labels(there.labels)
    return labelled is not None and labelled.ledger_id == ledger.id


def is_half_made(there: Cluster, ledger: Ledger) -> bool:
    """Whether a cluster was begun for a run of this ledger and is not whole: the next run waits for it, or makes the
    rest, and nothing of what it lacks at present says anything. One that is being given back counts as well.
    """
    name = lease_name(there.project, there.name)
    lease = latest(ledger, name) if _is_made_by(there, ledger) else None
    return lease is not None and lease.name == name and _whole(lease) is None


def _again(there: Cluster | None, wanted: Wanted) -> Cluster:
    """Returns a kept cluster that this run's own lease has."""
    if there is None:
        raise Missing(
            f"cluster {wanted.name}, which was kept, is not there any more", fix="leave out --lease"
        )
    refuse_dead(there)
    refuse_unfit(there, wanted)
    return there


def _joined(holding: Holding, there: Cluster, wanted: Wanted) -> bool:
    """Takes a cluster of this ledger that is whole: it stays for as long as the run does. False: it is going."""
    refuse_dead(there)
    refuse_unfit(there, wanted)
    try:
        return share(holding, there.labels) is not None
    except IllegalTransition:
        _take_back(holding)
        return False


def _take_back(holding: Holding) -> None:
    """Strikes shares off that were meant to be taken, and are not to be had."""
    for ref in [ref for ref in holding.lease.resources if ref.kind == SHARE and ref.uid is None]:
        holding.discard(ref)


def _adopt(holding: Holding, there: Cluster) -> None:
    holding.adopt(CLUSTER, f"{there.project}/{there.location}", there.name, there.uid)


def _is_ours(holding: Holding, pool: Pool) -> bool:
    labelled = read_labels(pool.labels)
    return labelled is not None and labelled.ledger_id == holding.ledger.id


def _make(
    holding: Holding, container: Container, wanted: Wanted, ways: Ways, *, apart: bool = False
) -> Cluster:
    """Makes the cluster, or what it lacks, under a lease of its own, which this run's holds from the beginning.

    So whoever dies when: with the last run that holds it, it goes.
    """
    if wanted.config is None:
        raise wanted.why_not or not_there(container, wanted)
    run = holding.lease
    before = _held(holding.ledger, container, wanted.name)
    own = claim(
        holding.ledger,
        holding.inventories,
        lease_name(container.project, wanted.name),
        run.run_id or run.lease_id,
        folder=run.folder,
        say=ways.say,
    )
    try:
        share(holding, labels_for(own.lease.lease_id, own.ledger.id))
        with own.renewing():
            works = Works(
                container, own, wanted.name, wanted.config, ways.say, ways.poll_s,
                limit_s=ways.limit_s, beside=True,
            )  # fmt: skip
            works.settle()
            there = works.look()
            planned = works.plan(there)
            works.check()
            others = [holder for holder in own.lease.holders if holder != run.lease_id]
            if planned.disturbs and others:
                raise Missing(
                    f"cluster {wanted.name} would have to be changed under {', '.join(others)}: {planned}",
                    fix="wait for those runs, or name another cluster",
                )
            made = works.carry_out(planned, there, apart=apart)
            ways.ready(made, own if apart else None)
            own.live()
            # It is over at once, but for those who hold it, or when it was kept for longer.
            kept_until = before.expires_at if before and before.owner is None and before.expires_at else 0.0
            own.detach(max(time.time(), kept_until))
    except BaseException as error:
        _undo(holding, own, error)
        if isinstance(error, Taken):
            raise InfrastructureError(str(error)) from error
        raise
    return made


def _undo(holding: Holding, own: Holding, ended_by: BaseException) -> None:
    """Gives back what is half made, and the run's hold on it first: nothing that is held can be given back.

    Raises Leaked where that is not proven.
    """
    own.check()
    for ref in [ref for ref in holding.lease.resources if ref.name == own.lease.lease_id]:
        holding.discard(ref)
    own.check()
    if own.lease.holders:  # another run's: with the last of them it goes
        own.detach(time.time())
        return
    refuse_unproven(own.release("it was not made whole"), ended_by)
