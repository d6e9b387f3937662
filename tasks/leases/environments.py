"""The inventories of what an environment has beside its cluster: each thing goes by its API, once what needs it went.

These kinds are looked at one by one, by name: each was written down before it was made, and things of an environment
are few. Only what has no name of its own is listed as well. What has our name but is not what the lease made is left
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.boards import Tensorboards
from tasks.cloud.buckets import Buckets
from tasks.cloud.container_errors import NotFound
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.cloud.labels import read_labels
from tasks.cloud.things import Nameless, OfCompute, Repositories, ServiceAccounts, Sort, Thing, Whose
from tasks.cloud.timing import Timing
from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.inventory import Found, Pace
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef

NETWORK, SUBNETWORK, ROUTER, FIREWALL = "gce_network", "gce_subnetwork", "gce_router", "gce_firewall"
ACCOUNT, PROJECT_ROLE, BUCKET_ROLE, ACCOUNT_ROLE = (
    "service_account",
    "project_role",
    "bucket_role",
    "account_role",
)
BUCKET, REPOSITORY, TENSORBOARD = "bucket", "image_repository", "tensorboard"

ROLES = frozenset({PROJECT_ROLE, BUCKET_ROLE, ACCOUNT_ROLE})
"""Kinds that nothing labels: what was not there when the lease was about to give it is the lease's."""

NAMELESS = frozenset({TENSORBOARD})
"""Kinds without names of their own: what a create came to that nobody answered is seen by the lease's label alone."""

KINDS = (
    NETWORK, SUBNETWORK, ROUTER, FIREWALL, ACCOUNT, PROJECT_ROLE, BUCKET_ROLE, ACCOUNT_ROLE, BUCKET, REPOSITORY,
    TENSORBOARD,
)  # fmt: skip

_AFTER: Mapping[str, frozenset[str]] = {
    # Last of all: it alone may have to wait for what others have in it, and all else is known to be gone by then.
    NETWORK: frozenset({*KINDS, CLUSTER, POOL} - {NETWORK}),
    SUBNETWORK: frozenset({ROUTER, CLUSTER, POOL}),
    ROUTER: frozenset({CLUSTER, POOL}),
    FIREWALL: frozenset({CLUSTER, POOL}),
    ACCOUNT: frozenset({*ROLES, CLUSTER, POOL}),
    BUCKET: frozenset({BUCKET_ROLE}),
}
_PREFIX = "environment-"

PACE = Pace(look_every_s=3.0, goes_within_s=900.0, remote=True)
_SETTLE_S = 20.0
_LOOKS = Timing(total_s=30.0)


_RULE = (
    "sourceRanges", "allowed", "disabled", "priority", "sourceTags", "sourceServiceAccounts", "targetTags",
    "targetServiceAccounts", "destinationRanges", "description",
)  # fmt: skip
"""What of a firewall rule is changed while it is there."""


def sort_of(kind: str, timing: Timing) -> Sort:
    """Returns what looks at, makes and deletes things of a kind."""
    compute = Rest("compute.googleapis.com", timing=timing)
    match kind:
        case "gce_network":
            return OfCompute("networks", ("routingConfig",), compute)
        case "gce_subnetwork":
            changes = ("ipCidrRange", "privateIpGoogleAccess", "secondaryIpRanges")
            return OfCompute("subnetworks", changes, compute)
        case "gce_router":
            return OfCompute("routers", ("nats", "description"), compute)
        case "gce_firewall":
            return OfCompute("firewalls", _RULE, compute)
        case "service_account":
            return ServiceAccounts(rest=Rest("iam.googleapis.com", timing=timing))
        case "project_role":
            return Grants("project", timing)
        case "bucket_role":
            return Grants("bucket", timing)
        case "account_role":
            return Grants("account", timing)
        case "bucket":
            return Buckets(rest=Rest("storage.googleapis.com", timing=timing))
        case "image_repository":
            return Repositories(rest=Rest("artifactregistry.googleapis.com", timing=timing))
        case "tensorboard":
            return Tensorboards(timing=timing)
    raise ValueError(f"{kind} is nothing that an environment has beside its cluster")


@dataclass
class ThingInventory:
    """Things of one kind. See Inventory."""

    kind: str
    ledger: Ledger
    pace: Pace = PACE
    settle_s: float = _SETTLE_S
    timing: Timing = _LOOKS

    def __post_init__(self) -> None:
        self.after = _AFTER.get(self.kind, frozenset())

    def sees(self, scope: str) -> bool:
        """See Inventory. Any project can be asked; what may not be asked shows as an error."""
        return bool(scope)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Nothing of kinds with names: see above."""
        lease = self.ledger.read(lease_id) if lease_id is not None else None
        sort = self._sort
        if lease is None or not isinstance(sort, Nameless):
            return ()
        known = [ref for ref in lease.resources if ref.kind == self.kind and ref.ours]
        made = sort.known_by(None, Whose(lease.name, self.ledger.id))
        return [
            Found(lease.lease_id, replace(ref, uid=there.uid))
            for ref in {ref.scope: ref for ref in known}.values()
            for there in made.made(ref.scope)
        ]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        sort = self._sort_for(ref)
        if isinstance(sort, Nameless) and ref.uid is None:
            there = next(iter(sort.made(ref.scope)), None)
        else:
            there = sort.look(ref.scope, ref.name) if sort is not None else None
        if there is None:
            return None
        if ref.uid is not None and self.kind in ROLES:  # a role is what it says
            return replace(ref, uid=there.uid)
        if ref.uid is not None:
            return ref if ref.uid == there.uid else None
        return replace(ref, uid=there.uid) if self._is_ours(there) else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. What has our name but is another thing by now is left alone."""
        sort = self._sort_for(ref)
        if sort is None or self.get(ref) is None:
            return
        try:
            if self.kind == NETWORK:
                self._clear(ref)
            sort.delete(ref.scope, ref.name)
        except NotFound:
            return

    @property
    def _sort(self) -> Sort:
        return sort_of(self.kind, self.timing)

    def _sort_for(self, ref: ResourceRef) -> Sort | None:
        """Returns what looks at just this thing; None where no lease is about to make such a one any more."""
        sort = self._sort
        if not isinstance(sort, Nameless):
            return sort
        if ref.uid is not None:
            return sort.known_by(ref.uid, Whose())
        making = [
            lease.name
            for lease in self.ledger.listing().leases
            if (found := lease.find(ref.kind, ref.scope, ref.name)) and found.ours and found.uid is None
        ]
        if len(making) > 1:
            raise InfrastructureError(
                f"{' and '.join(making)} were both about to make {ref.kind} {ref.name}: nobody knows whose is meant; "
                "do again what was under way on one of them"
            )
        return sort.known_by(None, Whose(making[0], self.ledger.id)) if making else None

    def _is_ours(self, there: Thing) -> bool:
        if self.kind in ROLES:
            return True
        labelled = read_labels(there.labels or {})
        return labelled is not None and labelled.ledger_id == self.ledger.id

    def _clear(self, network: ResourceRef) -> None:
        """Deletes what GKE left in a network of ours: rules of clusters that are gone, which nobody else takes away."""
        rules = OfCompute("firewalls", rest=Rest("compute.googleapis.com", timing=self.timing))
        for one in rules.of_network(network.scope, network.name):
            if str(one["name"]).startswith(("gke-", "k8s-", "k8s2-")):
                rules.delete(network.scope, str(one["name"]))


def inventories(ledger: Ledger) -> Mapping[str, ThingInventory]:
    """Returns all of them, by kind."""
    return {kind: ThingInventory(kind, ledger) for kind in KINDS}


def lease_name(project: str, name: str) -> str:
    """Returns the name of the lease that an environment is made under: one of each name in a project."""
    return f"{_PREFIX}{name}_{_legal(project)}"


def called(lease: str, project: str) -> str:
    """Returns the environment of a project that a lease of this name is of; empty: of none."""
    if not lease.startswith(_PREFIX) or not lease.endswith(f"_{_legal(project)}"):
        return ""
    return lease.removeprefix(_PREFIX).removesuffix(f"_{_legal(project)}")


def _legal(project: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project.lower())
