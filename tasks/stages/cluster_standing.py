"""How clusters of GKE stand, whoever made them: their slices, whose they are, what they cost. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.contract.errors import BadInput
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.labels import labels_for, read_labels
from tasks.cloud.pool_sizes import as_now
from tasks.config.cluster import ClusterConfig
from tasks.leases.clusters import is_unmarked, lease_name
from tasks.leases.inventory import Inventories
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.stopped import REAP
from tasks.stages.cluster_inside import Inside, Nodes
from tasks.targets.cluster_find import find, refuse_others
from tasks.targets.cluster_making import Say
from tasks.targets.cluster_requests import CPU_POOL

Mine = Callable[[Mapping[str, str]], bool]
"""Knows by labels what a lease made."""


@dataclass(frozen=True)
class Office:
    """Where clusters are asked for and written down. `inside` looks into them and sets them up; None: nobody does.

    `go_on` says to people what gives back what an interrupt left.
    """

    container: Container
    ledger: Ledger
    inventories: Inventories
    say: Say = lambda line: None
    poll_s: float = 5.0
    inside: Inside | None = None
    go_on: str = REAP

    @property
    def reaped(self) -> bool:
        """Whether what is left goes by `slicebench reap`, too."""
        return self.go_on == REAP


@dataclass(frozen=True)
class Slice:
    """A node pool: machines that are to be there, are there, work, and are used; None: cannot be known from here."""

    pool: str
    state: str
    machine_type: str
    topology: str
    capacity: str
    expected: int
    present: int | None
    healthy: int | None
    used: int | None
    why: str = ""


@dataclass(frozen=True)
class Standing:
    """A cluster, whoever made it. `lease_id` empty: slicebench did not."""

    name: str
    location: str
    state: str
    version: str
    slices: Sequence[Slice]
    lease_id: str = ""
    owner: str = ""
    expires_at: float | None = None
    holders: Sequence[str] = ()
    price_per_hour: float | None = None
    note: str = ""


def listing(office: Office) -> Sequence[Standing]:
    """Returns every cluster of the project, in all locations, whoever made it."""
    timing = office.container.timing
    found = [_standing(office, as_now(one, timing), None) for one in office.container.clusters()]
    return sorted(found, key=lambda one: (one.location, one.name))


def describe(office: Office, name: str, location: str = "") -> Standing:
    """Returns a cluster with its slices: expected, present, healthy and used, as far as can be seen from here."""
    there = existing(office, name, location)
    nodes = office.inside.nodes(there) if office.inside and there.endpoint else None
    return _standing(office, there, nodes)


def existing(office: Office, name: str, location: str = "") -> Cluster:
    """Returns a cluster by its name. Raises BadInput when there is none."""
    there = find(office.container, name, location)
    if there is None:
        known = ", ".join(sorted(one.name for one in office.container.clusters())) or "none at all"
        raise BadInput(f"there is no cluster {name!r} in {office.container.project}", fix=f"there is {known}")
    return there


def seen(office: Office, name: str, config: ClusterConfig) -> tuple[Cluster | None, Mine, bool]:
    """Returns a cluster with its labels, what knows its lease by these, and whether somebody took them away.

    Raises Others for what of it may not be worked on. One whose lease is being given back is not there any more.
    """
    lease = latest(office.ledger, lease_name(office.container.project, name))
    held = lease.lease_id if lease and lease.state in HELD else ""
    there = find(office.container, name, config.location, sure=config.counts_nodes)
    if there is not None and is_going(office, lease, there):
        there = None
    unmarked = there is not None and bool(held) and is_unmarked(lease, there)
    if there is not None and unmarked:
        there = replace(there, labels=labels_for(held, office.ledger.id))

    def mine(labels: Mapping[str, str]) -> bool:
        labelled = read_labels(labels)
        return bool(labelled and (labelled.lease_id, labelled.ledger_id) == (held, office.ledger.id))

    if there is not None:
        refuse_others(there, config, mine, beside=False)
    return there, mine, unmarked


def is_going(office: Office, lease: Lease | None, there: Cluster) -> bool:
    """Whether a cluster is of a lease that somebody began to give back: whoever takes that gives it back first."""
    if lease is None or lease.state not in (State.RELEASING, State.LEAKED):
        return False
    labelled = read_labels(there.labels)
    mine = labelled is not None and (labelled.lease_id, labelled.ledger_id) == (
        lease.lease_id,
        office.ledger.id,
    )
    return mine or is_unmarked(lease, there)


def _standing(office: Office, there: Cluster, nodes: Mapping[str, Nodes] | None) -> Standing:
    labelled = read_labels(there.labels)
    # Asking for its name would make a ledger that is not there: who looks needs none.
    ours = labelled is not None and office.ledger.exists() and labelled.ledger_id == office.ledger.id
    lease = office.ledger.read(labelled.lease_id) if labelled and ours else None
    if lease is None and labelled is None:  # there before, and perhaps with slices of ours in it
        lease = latest(office.ledger, lease_name(office.container.project, there.name))
        lease = lease if lease and lease.state is not State.GONE else None
    standing = Standing(
        there.name,
        there.location,
        there.state,
        there.version,
        tuple(_slice(pool, nodes, _changes(lease, pool)) for pool in there.pools if pool.name != CPU_POOL),
        note=there.why,
    )
    if labelled is None and lease is None:
        return standing
    return replace(
        standing,
        lease_id=lease.lease_id if lease else labelled.lease_id if labelled else "",
        owner=labelled.owner + ("" if ours else " (another ledger)") if labelled else "",
        expires_at=lease.expires_at if lease else labelled.expires_at if labelled else None,
        holders=lease.holders if lease else (),
        price_per_hour=lease.price_per_hour if lease else None,
    )


def _changes(lease: Lease | None, pool: Pool) -> str:
    """Returns what the lease says of a size that is being changed, or was when somebody died."""
    refs = lease.resources if lease is not None else ()
    return next((str(ref.resizing) for ref in refs if ref.uid == pool.uid and ref.resizing), "")


def _slice(pool: Pool, nodes: Mapping[str, Nodes] | None, changes: str) -> Slice:
    present = healthy = used = None
    if nodes is not None:
        seen = nodes.get(pool.name, Nodes(0, 0, 0))
        present, healthy, used = seen.present, seen.healthy, seen.used
    elif pool.state in ("ERROR", "PROVISIONING", "STOPPING"):
        present = healthy = 0
    elif pool.state == "RUNNING" and not pool.autoscaled:  # GKE calls it so once every machine has registered
        present = healthy = pool.machines
    return Slice(
        pool.name,
        pool.state,
        pool.machine_type,
        pool.topology,
        pool.capacity,
        pool.machines,
        present,
        healthy,
        used,
        pool.why or changes,
    )
