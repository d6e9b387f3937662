"""TPU VMs that people keep at hand: made under a lease of their own with an expiry, looked up, given back.

One face over nodes and queued resources: whatever was made under a name is found under that name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.labels import read_labels
from tasks.cloud.prices import load_prices
from tasks.cloud.resource_names import problem_with
from tasks.cloud.ssh_keys import make_key
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import Node, Queued
from tasks.cloud.tpu_types import known_types
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases import directories
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.resource import ResourceRef
from tasks.leases.stopped import refuse_unproven, telling_what_stands
from tasks.leases.tpus import NODE, QUEUED
from tasks.stages.by_name import give_back
from tasks.targets.tpu_access import metadata_of_made
from tasks.targets.tpu_capacity import Desk, find, nodes_of
from tasks.targets.tpu_plan import price_of

Say = Callable[[str], None]
KEY_FILE = "id_ed25519"


@dataclass(frozen=True)
class Office:
    """Where TPUs are asked for and written down. `scratch` holds a folder with the key of each lease."""

    tpu: CloudTpu
    ledger: Ledger
    inventories: Inventories
    scratch: Path
    say: Say = lambda line: None
    poll_s: float = 5.0


@dataclass(frozen=True)
class Standing:
    """A name and what stands behind it. `lease_id` empty: slicebench did not make it."""

    name: str
    zone: str
    kind: str
    state: str
    type: str
    nodes: Sequence[Node]
    lease_id: str = ""
    owner: str = ""
    expires_at: float | None = None
    price_per_hour: float | None = None
    note: str = ""


def lease_name(name: str) -> str:
    """Returns the name of the lease that a TPU is made under."""
    return f"tpu-{name}"


def key_file(scratch: Path, name: str) -> Path:
    """Returns where the private key of a TPU is that `create` made under this name."""
    return scratch / lease_name(name) / KEY_FILE


def key_of(office: Office, name: str, labels: Mapping[str, str]) -> Path:
    """Returns where the private key of a TPU is: its labels name the lease, a run's too where the run kept it.

    One whose lease is not in our ledger has none here, which shows as a file that is not there.
    """
    labelled = read_labels(labels)
    ours = labelled is not None and office.ledger.exists() and labelled.ledger_id == office.ledger.id
    lease = office.ledger.read(labelled.lease_id) if labelled and ours else None
    return office.scratch / lease.name / KEY_FILE if lease else key_file(office.scratch, name)


def create(
    office: Office, name: str, config: TpuVmTargetConfig, ttl_s: float, *, wait: bool = True
) -> Standing:
    """Makes a TPU of this name, kept for `ttl_s` seconds from when it is there. Called again it goes on.

    Where nobody waits for it, the time counts from now, or from `valid_after` where that is later.
    Whatever interrupts it gives back what was made; what was kept under the name before stays. Raises BadInput,
    Taken, NoCapacity, Leaked.
    """
    problem = problem_with(name)
    if problem is not None:
        raise BadInput(problem)
    kept = _kept(office, name, config)
    holding = claim(office.ledger, office.inventories, lease_name(name), None)
    try:
        with holding.renewing():
            desk = _desk(office, name, config, holding)
            holding.describe(_shape(config), price_of(config, config.zones[0]))
            if wait:
                zone = desk.acquire().nodes[0].zone
                holding.describe(_shape(config), price_of(config, zone))
                holding.live()
            else:
                desk.ask(config.zones[0])
            not_before = config.valid_after.timestamp() if config.valid_after else 0.0
            holding.detach(max(time.time(), not_before) + ttl_s)
    except BaseException as ended_by:
        if kept is not None:
            holding.detach(kept.expires_at)
            raise
        with telling_what_stands(office.ledger, holding.lease):
            done = holding.release("it was not made whole")
        refuse_unproven(done, ended_by)
        raise
    return status(office, name, config.zones)


def delete(office: Office, name: str) -> Sequence[ResourceRef]:
    """Gives back what was made under this name; returns what went.

    Raises BadInput when slicebench did not make it, Taken while somebody is making it or a run uses it, Leaked.
    """
    return give_back(
        office.ledger, office.inventories, lease_name(name), name,
        what=repr(name), listed_by="slicebench tpu list",
    )  # fmt: skip


def status(office: Office, name: str, zones: Sequence[str] = ()) -> Standing:
    """Returns what stands behind a name: a queued resource, else a node. Raises BadInput when nothing does."""
    lease = latest(office.ledger, lease_name(name))
    held = _held(lease)
    found = find(office.tpu, held or zones, name)
    nodes = nodes_of(office.tpu, found)
    return _with_lease(office.ledger, _standing(found, nodes), found)


def listing(office: Office, zone: str | None = None) -> Sequence[Standing]:
    """Returns every TPU of the project, or of a zone; those of a queued resource under its name."""
    where = (zone,) if zone else ()
    nodes, queued = office.tpu.nodes(*where), office.tpu.queued(*where)
    standing = []
    for one in queued:
        own = [node for node in nodes if (node.zone, node.queued) == (one.zone, one.name)]
        standing.append(_with_lease(office.ledger, _standing(one, own), one))
    names = {(one.zone, one.name) for one in queued}
    for node in nodes:
        if (node.zone, node.queued) not in names:
            standing.append(_with_lease(office.ledger, _standing(node, [node]), node))
    return sorted(standing, key=lambda one: (one.zone, one.name))


def _desk(office: Office, name: str, config: TpuVmTargetConfig, holding: Holding) -> Desk:
    folder = office.scratch / lease_name(name)
    place = directories.reference(folder)
    holding.create(place.kind, place.scope, place.name, lambda: directories.make(folder, holding.labels))
    public = make_key(folder / KEY_FILE, holding.lease.lease_id)
    metadata = metadata_of_made(config.user, public)
    return Desk(office.tpu, config, holding, office.say, metadata, office.poll_s, name=name)


def _shape(config: TpuVmTargetConfig) -> Mapping[str, str]:
    """Returns what is made, for people; it is not what a run compares, which would make slices of its own besides."""
    return {"made_by": "tpu create", "type": config.type, "slices": str(config.slices), "tier": config.tier}


def _kept(office: Office, name: str, config: TpuVmTargetConfig) -> Lease | None:
    """Returns the lease under which the name is kept already. Raises BadInput when that is of another type."""
    lease = latest(office.ledger, lease_name(name))
    if lease is None or lease.state is not State.LIVE:
        return None
    there = status(office, name)
    if there.type != config.type:
        raise BadInput(
            f"{name!r} is there already, as {there.type}",
            fix=f"choose another name, or slicebench tpu delete {name}",
        )
    return lease


def _held(lease: Lease | None) -> Sequence[str]:
    """Returns the zones where a lease has TPUs."""
    if lease is None or lease.state is State.GONE:
        return ()
    return sorted({ref.scope.partition("/")[2] for ref in lease.resources if ref.kind in (NODE, QUEUED)})


def _standing(found: Node | Queued, nodes: Sequence[Node]) -> Standing:
    queued = isinstance(found, Queued)
    shape = known_types().get(found.type)
    running = sum(node.state == "READY" for node in nodes)
    price = None
    if shape is not None:
        price = load_prices().per_hour(shape.generation, shape.chips * running, found.zone, spot=found.spot)
    note = f"{found.error}" if isinstance(found, Queued) and found.error else ""
    if found.state in ("FAILED", "SUSPENDED", "PREEMPTED", "TERMINATED"):
        note = "; ".join(part for part in (note, "it holds quota until it is deleted") if part)
    kind = "queued resource" if queued else "node"
    return Standing(
        found.name, found.zone, kind, found.state, found.type, nodes, price_per_hour=price, note=note
    )


def _with_lease(ledger: Ledger, standing: Standing, found: Node | Queued) -> Standing:
    labelled = read_labels(found.labels)
    if labelled is None:
        return standing
    ours = ledger.exists() and labelled.ledger_id == ledger.id
    lease = ledger.read(labelled.lease_id) if ours else None
    return replace(
        standing,
        lease_id=labelled.lease_id,
        owner=labelled.owner + ("" if ours else " (another ledger)"),
        expires_at=lease.expires_at if lease else labelled.expires_at,
    )
