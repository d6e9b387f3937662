"""The inventory of workload policies: what hosts of a slice need to be near each other, and who needs it no more.

Their scope is "project/region"; what would be their labels is in their description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tasks.cloud.compute import ENDPOINT_VARIABLE, Compute, Policy
from tasks.cloud.container_errors import NotFound
from tasks.cloud.labels import Labelled, read_labels
from tasks.cloud.timing import Timing
from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.inventory import Found, Pace
from tasks.leases.ledger import Ledger
from tasks.leases.resource import POLICY as POLICY
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import in_projects, projects_of

PACE = Pace(look_every_s=3.0, goes_within_s=900.0, remote=True)
_SETTLE_S = 20.0
_TIMING = Timing(total_s=30.0)

Opened = Callable[[str], Compute]


def opened(project: str) -> Compute:
    """Returns the client that the inventory looks with."""
    return Compute(project, timing=_TIMING)


class PolicyInventory:
    """Resource policies of all regions, where a lease made some. See Inventory."""

    kind = POLICY
    after = frozenset({CLUSTER, POOL})
    """A policy that a node pool uses cannot be deleted."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        pace: Pace = PACE,
        settle_s: float = _SETTLE_S,
        compute: Opened = opened,
    ) -> None:
        self.pace = pace
        self.settle_s = settle_s
        self._ledger = ledger
        self._compute = compute

    def sees(self, scope: str) -> bool:
        """See Inventory. Any project can be asked; what may not be asked shows as an error."""
        return scope.count("/") == 1

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Looks where leases made some: most people's clusters need none, and none of this API."""
        named = projects_of(self._ledger, lease_id, (POLICY,), ENDPOINT_VARIABLE)
        projects = {project: True for project, is_named in named.items() if is_named}
        return in_projects(self.kind, projects, lambda project: self._in_project(project, lease_id))

    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        for policy in self._compute(project).policies():
            labelled = self._ours(policy)
            if labelled is not None and lease_id in (None, labelled.lease_id):
                yield Found(labelled.lease_id, reference(policy))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory."""
        project, _, region = ref.scope.partition("/")
        try:
            there = self._compute(project).policy(region, ref.name)
        except NotFound:
            return None
        if ref.uid is not None:
            return ref if ref.uid == there.uid else None
        return replace(ref, uid=there.uid) if self._ours(there) else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. What has our name but is another policy by now is left alone."""
        if self.get(ref) is not None:
            project, _, region = ref.scope.partition("/")
            self._compute(project).delete_policy(region, ref.name)

    def _ours(self, policy: Policy) -> Labelled | None:
        labelled = read_labels(policy.labels or {})
        return labelled if labelled is not None and labelled.ledger_id == self._ledger.id else None


def reference(policy: Policy) -> ResourceRef:
    """Returns a policy as a lease knows it."""
    return ResourceRef(POLICY, f"{policy.project}/{policy.region}", policy.name, policy.uid)


def inventories(ledger: Ledger) -> Mapping[str, PolicyInventory]:
    """Returns the one, by its kind."""
    return {POLICY: PolicyInventory(ledger)}
