"""What a cluster's lease says while the cluster is changed: what is half made, what is whole, what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.cloud.container_model import Cluster
from tasks.cloud.labels import read_labels
from tasks.config.cluster import ClusterConfig
from tasks.leases import steps
from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.holding import Holding
from tasks.leases.lease import Lease
from tasks.leases.resource import Resizing, ResourceRef
from tasks.targets.cluster_price import price_of
from tasks.targets.cluster_requests import CPU_POOL


def shape_of(config: ClusterConfig) -> Mapping[str, str]:
    """Returns what is made, for people, and the config whole, for whoever resizes it."""
    told = {"made_by": "cluster create", "type": config.type or "none", "capacity": config.capacity}
    size = {"machines": str(config.machines)} if config.counts_nodes else {"slices": str(config.slices)}
    return {**told, **size, "config": config.model_dump_json(exclude_defaults=True)}


def sized(config: ClusterConfig, size: int) -> ClusterConfig:
    """Returns the same cluster with so many slices, or GPU and CPU machines: as many as came, it may be none."""
    return config.model_copy(update={"nodes" if config.counts_nodes else "slices": size})


@dataclass
class Book:
    """Writes of one cluster. Each write also says what then stands comes to, where the lease is of a kept cluster.

    `_sizes`: nodes of pools, as they were when they were last looked at or made.
    """

    holding: Holding
    project: str
    name: str
    config: ClusterConfig
    _sizes: dict[str, int] = field(default_factory=dict)

    # Where it is, and whose

    def location(self) -> str:
        """Returns where the cluster is: as the lease says, else as the config does."""
        for ref in self.holding.lease.resources:
            if ref.kind == CLUSTER and ref.name == self.name:
                return ref.scope.partition("/")[2]
        return self.config.location

    @property
    def scope(self) -> str:
        """The scope of the cluster."""
        return f"{self.project}/{self.location()}"

    @property
    def pool_scope(self) -> str:
        """The scope of its node pools."""
        return f"{self.scope}/{self.name}"

    def is_mine(self, labels: Mapping[str, str]) -> bool:
        """Whether something of these labels was made under this lease."""
        labelled = read_labels(labels)
        ours = (self.holding.lease.lease_id, self.holding.ledger.id)
        return labelled is not None and (labelled.lease_id, labelled.ledger_id) == ours

    # What is there

    def open(self, there: Cluster | None) -> None:
        """Strikes off what went without us, and remembers sizes; a cluster of others is adopted."""
        for ref in [ref for ref in self.holding.lease.resources if ref.ours and ref.uid is not None]:
            if self._is_gone(ref, there):
                self.holding.forget(ref)
        if there is None:
            return
        if not self.is_mine(there.labels):
            self.holding.adopt(CLUSTER, f"{there.project}/{there.location}", there.name, there.uid)
        self._sizes.update({pool.name: pool.size for pool in there.pools})
        around = self.holding.lease.find(CLUSTER, self.scope, self.name)
        if around is not None:
            self.holding.contain(around, frozenset({POOL}))

    def _is_gone(self, ref: ResourceRef, there: Cluster | None) -> bool:
        if ref.kind == CLUSTER and ref.name == self.name:
            return there is None or there.uid != ref.uid
        if ref.kind != POOL or ref.scope != self.pool_scope:
            return False
        pool = there.pool(ref.name) if there is not None else None
        return pool is None or pool.uid != ref.uid

    # What becomes of it

    def going(self, ref: ResourceRef) -> None:
        """Says that something is half gone: from now on it does not count, and whoever comes finishes that."""
        self.holding.mark([ref], half=True, tally=self._tallied)

    def whole(self, *names: str) -> None:
        """Says of the cluster, and of node pools of it, that they are whole: from now on they stay if it stays."""
        places = {(CLUSTER, self.scope, name) for name in names if name == self.name}
        places |= {(POOL, self.pool_scope, name) for name in names}
        whole = [ref for ref in self.holding.lease.resources if (ref.kind, ref.scope, ref.name) in places]
        self.holding.mark(whole, half=False, tally=self._tallied)

    def made(self, pool: str) -> None:
        """Says that a node pool is there as it is wanted."""
        self._sizes[pool] = self.config.machines
        self.whole(pool)

    def resizing(self, pool: str) -> None:
        """Says that machines are about to come or go; whoever finds that half done leaves the fewer of both."""
        ref = self._pool(pool)
        if ref is not None:
            before = ref.resizing.back if ref.resizing else self._sizes[pool]
            self._sizes[pool] = min(before, self.config.machines)
            change = Resizing(self.config.machines, self._sizes[pool])
            self.holding.resize(ref, change, tally=self._tallied)

    def resized(self, pool: str) -> None:
        """Says that a node pool has as many machines as are wanted."""
        ref = self._pool(pool)
        self._sizes[pool] = self.config.machines
        if ref is not None:
            self.holding.resize(ref, None, tally=self._tallied)

    def _pool(self, name: str) -> ResourceRef | None:
        return self.holding.lease.find(POOL, self.pool_scope, name)

    def _tallied(self, lease: Lease) -> Lease:
        """Returns a kept cluster's lease with what is whole by now, and what that costs: what would stay."""
        if not lease.stands:
            return lease
        whole = {ref.name for ref in lease.resources if ref.kind == POOL and _stays(lease, ref)} - {CPU_POOL}
        if self.config.counts_nodes:
            config = sized(self.config, sum(self._sizes.get(name, 0) for name in whole))
        else:
            config = sized(self.config, len(whole))
        return steps.describe(lease, shape_of(config), price_of(config))


def _stays(lease: Lease, ref: ResourceRef) -> bool:
    """Whether something is whole, as is what it is in."""
    around = next((one for one in lease.resources if one.key == ref.inside), None)
    return ref.ours and ref.uid is not None and not ref.half and not (around is not None and around.half)
