"""Makes a cluster as it is wanted, for a lease: step by step, each written down first, waited for and looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container import Container, failure_of
from tasks.cloud.container_errors import (
    Broken,
    ContainerError,
    NotFound,
    ReservationShort,
    StockedOut,
)
from tasks.cloud.container_fields import Fields
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.labels import read_labels
from tasks.config.cluster import ClusterConfig
from tasks.leases.clusters import CLUSTER, OPERATION, POOL, pool_reference, reference
from tasks.leases.holding import Holding
from tasks.leases.release import USUAL, Patience
from tasks.leases.resource import ResourceRef
from tasks.targets.cluster_placing import placed
from tasks.targets.cluster_plan import ClusterPlan, Step, plan
from tasks.targets.cluster_requests import (
    CPU_POOL,
    cluster_request,
    cpu_pool_request,
    dead_man,
    pool_name,
    pool_request,
)

Say = Callable[[str], None]
Busy = Callable[[Cluster], Mapping[str, bool]]
"""Says of the node pools of a cluster whether something runs on them, as far as it can be seen."""

CLUSTER_S, POOL_S = 3600.0, 7200.0
"""How long a cluster and a node pool may take to be made, seconds."""

_TELL_S = 60.0
"""What is waited for is told after so long, and again after twice as long each time."""


class NotWhole(InfrastructureError):
    """Some slices could not be made; `there` names the node pools that are there, `causes` says why by pool."""

    def __init__(self, name: str, there: Sequence[str], causes: Mapping[str, ContainerError]) -> None:
        told = "; ".join(f"{pool}: {error}" for pool, error in causes.items())
        has = f"{len(there)} of {len(there) + len(causes)} node pools of {name} are there"
        super().__init__(f"{has}: {told}")
        self.there, self.causes = tuple(there), causes


@dataclass
class Works:
    """A cluster in the making, or being changed. One that was there before is adopted; then only its slices are ours.

    `ask_busy` is asked which slices are idle. `poll_s` between looks; `patience` for what is given back; `limit_s` for
    all that is made. `beside`: node pools of others that have our names are left alone, and ours get other names.
    `apart`: others' pods are kept off ours.
    """

    container: Container
    holding: Holding
    name: str
    config: ClusterConfig
    say: Say = lambda line: None
    poll_s: float = 5.0
    ask_busy: Busy | None = None
    patience: Patience = USUAL
    limit_s: float | None = None
    beside: bool = False
    apart: bool = False
    _began: float = field(default_factory=time.monotonic)
    _failed: dict[str, ContainerError] = field(default_factory=dict)

    def look(self) -> Cluster | None:
        """Returns the cluster of this name, in whatever location. Raises BadInput when there are several."""
        return find(self.container, self.name, self._location())

    def plan(self, there: Cluster | None) -> ClusterPlan:
        """Returns what is to be done. Raises BadInput where something of another stands in the way."""
        self._refuse_others(there)
        busy = (
            self.ask_busy(there) if self.ask_busy and there is not None and there.state != "ERROR" else None
        )
        ours = there is None or self._is_mine(there.labels)
        return plan(self.name, self.config, there, lambda pool: self._is_mine(pool.labels), busy, ours=ours)

    def settle(self) -> None:
        """Ends what an earlier try left: waits for its operations, and finds out what of its intents is there."""
        self._end_operations()
        for ref in [ref for ref in self.holding.lease.resources if ref.ours and ref.uid is None]:
            there = self.holding.inventories[ref.kind].get(ref)
            if there is None or there.uid is None:
                self.holding.discard(ref, self.patience)
            else:
                uid = there.uid
                self.holding.create(ref.kind, ref.scope, ref.name, lambda uid=uid: uid, dead_man=ref.dead_man)  # type: ignore[misc]

    def check(self) -> None:
        """Builds every request without asking: what the API could not read is refused before anything is made."""
        labels = self.holding.resource_labels
        cluster_request(self.name, self.config, self.container.project, labels)
        shape = self.config.shape
        if shape is not None:
            pool_request(pool_name(0), self.config, shape, labels)

    def carry_out(self, planned: ClusterPlan, there: Cluster | None) -> Cluster:
        """Does what was planned; returns the cluster as it then is.

        A slice that cannot be had is given back, and the others are made all the same; then NotWhole is raised.
        Raises ContainerError for what would fail for every slice, Leaked, Fenced.
        """
        self._failed.clear()
        if there is not None and not self._is_mine(there.labels):
            self.holding.adopt(CLUSTER, *self._place(there), there.uid)
        self._contain(there)
        for step in planned.steps:
            self._do(step)
        made = self.container.cluster(self._location(), self.name)
        if self._failed:
            raise NotWhole(self.name, [pool.name for pool in self._good(made)], self._failed)
        return made

    def _end_operations(self) -> None:
        """Waits for what an earlier try had asked for, as the lease says, and strikes it off."""
        for ref in [ref for ref in self.holding.lease.resources if ref.kind == OPERATION]:
            self.say(f"waiting for {ref.name}, which was begun before")
            self._until(lambda ref=ref: self._is_over(ref), POOL_S, f"end {ref.name}")  # type: ignore[misc]
            self.holding.forget(ref)

    # The steps

    def _do(self, step: Step) -> None:
        self.say(str(step))
        match step.do:
            case "make cluster":
                self._make_cluster()
            case "replace cluster":
                self._give_back(CLUSTER, self._scope(), step.name)
                self._make_cluster()
            case "make policy":
                placed(self.holding, self.container, self.config)
            case "make pool":
                self._make_pool(step.name)
            case "replace pool":
                self._give_back(POOL, self._pool_scope(), step.name)
                self._make_pool(step.name)
            case "remove pool":
                self._give_back(POOL, self._pool_scope(), step.name)
            case "resize pool":
                nodes = self.config.machines
                self._follow(
                    self.container.resize_pool(self._location(), self.name, step.name, nodes), POOL_S
                )
            case "wait for":
                self._await_made(step.name)

    def _make_cluster(self) -> None:
        labels = self.holding.resource_labels
        request = cluster_request(self.name, self.config, self.container.project, labels)
        operation = ""

        def make() -> str:
            nonlocal operation
            made, operation = self.container.create_cluster(self._location(), request)
            self._note(operation)
            return made.uid

        ref = self.holding.create(CLUSTER, self._scope(), self.name, make)
        self.holding.contain(ref, frozenset({POOL}))
        self._follow(operation, CLUSTER_S)
        self._await_cluster()

    def _make_pool(self, name: str) -> None:
        if name == CPU_POOL:
            self._make_one(name, cpu_pool_request(self.config, self.holding.resource_labels))
            return
        shape = self.config.shape
        assert shape is not None
        *others, last = self.config.reservations or ("",)
        for reservation in (*others, last):
            config = placed(self.holding, self.container, self.config)
            labels = self.holding.resource_labels
            request = pool_request(name, config, shape, labels, reservation, apart=self.apart)
            try:
                self._make_one(name, request)
            except ReservationShort as error:
                if reservation is last:
                    self._fail(name, error)
                else:
                    self.say(f"{error}; trying the next reservation")
            except (StockedOut, Broken) as error:
                self._fail(name, error)
                return
            else:
                self._failed.pop(name, None)
                return

    def _fail(self, name: str, error: ContainerError) -> None:
        self.say(str(error))
        self._failed[name] = error

    def _make_one(self, name: str, request: Fields) -> None:
        """Makes a node pool; one that does not come up as it should is given back before the error is raised."""
        operation = ""

        def make() -> str:
            nonlocal operation
            made, operation = self.container.create_pool(self._location(), self.name, request)
            self._note(operation)
            return made.uid

        try:
            self.holding.create(POOL, self._pool_scope(), name, make, dead_man=dead_man(self.config))
            self._follow(operation, POOL_S)
            self._await_pool(name)
        except ContainerError:
            self._give_back(POOL, self._pool_scope(), name)
            raise

    def _give_back(self, kind: str, scope: str, name: str) -> None:
        """Deletes something of the lease, and looks that it is gone."""
        ref = self.holding.lease.find(kind, scope, name) or self._found(kind, name)
        if ref is not None:
            self.holding.discard(ref, self.patience)

    def _found(self, kind: str, name: str) -> ResourceRef | None:
        """Returns something that was made with the cluster, and stands in no lease by itself: its CPU pool."""
        there = self.container.cluster(self._location(), self.name)
        if kind == CLUSTER:
            return reference(there)
        pool = there.pool(name)
        return pool_reference(pool) if pool is not None and self._is_mine(pool.labels) else None

    # Waiting

    def _await_made(self, name: str) -> None:
        if name == self.name:
            self._await_cluster()
            return
        try:
            self._await_pool(name)
        except ContainerError as error:
            self._give_back(POOL, self._pool_scope(), name)
            self._fail(name, error)

    def _await_cluster(self) -> None:
        there: list[Cluster] = []

        def came() -> bool:
            there[:] = [self.container.cluster(self._location(), self.name)]
            return there[0].state != "PROVISIONING"

        self._until(came, CLUSTER_S, f"make cluster {self.name}")
        if there[0].state in ("ERROR", "STOPPING"):
            why = self.container.why(self._location(), self.name)
            raise why or Broken(f"cluster {self.name} is {there[0].state}: {there[0].why}")

    def _await_pool(self, name: str) -> None:
        there: list[Pool] = []

        def came() -> bool:
            there[:] = [self.container.pool(self._location(), self.name, name)]
            return there[0].state not in ("PROVISIONING", "RECONCILING")

        self._until(came, POOL_S, f"make node pool {name}")
        if there[0].state != "RUNNING":
            why = self.container.why(self._location(), self.name, name)
            raise why or Broken(f"node pool {name} of {self.name} is {there[0].state}: {there[0].why}")

    def _follow(self, operation: str, limit_s: float) -> None:
        """Waits for the end of an operation, when its name is known. Raises the error that it ended with."""
        if not operation:
            return
        location = self._location()
        self._until(lambda: self.container.operation(location, operation).done, limit_s, f"end {operation}")
        self._strike(operation)
        ended = self.container.operation(location, operation)
        if ended.code or ended.error:
            raise failure_of(ended)

    def _until(self, over: Callable[[], bool], limit_s: float, doing: str) -> None:
        began = time.monotonic()
        if self.limit_s is not None:  # for all together
            limit_s = min(limit_s, self._began + self.limit_s - began)
        tell_s = _TELL_S
        while not over():
            waited = time.monotonic() - began
            if waited >= limit_s:
                raise Broken(f"cannot {doing}: it takes more than {self.limit_s or limit_s:.0f} s")
            if waited >= tell_s:
                tell_s *= 2
                self.say(
                    f"waiting for GKE to {doing}: for {waited:.0f} s by now, for {limit_s:.0f} s at most"
                )
            time.sleep(self.poll_s)
            self.holding.check()

    def _is_over(self, ref: ResourceRef) -> bool:
        try:
            return self.container.operation(self._location(), ref.name).done
        except NotFound:  # the service forgets them after a while
            return True

    # What is written down

    def _note(self, operation: str) -> None:
        """Writes down what is waited for: whoever goes on with the lease waits for it as well."""
        if operation:
            self.holding.adopt(OPERATION, self._scope(), operation, operation)

    def _strike(self, operation: str) -> None:
        ref = self.holding.lease.find(OPERATION, self._scope(), operation)
        if ref is not None:
            self.holding.forget(ref)

    def _contain(self, there: Cluster | None) -> None:
        ref = self.holding.lease.find(CLUSTER, self._scope(), self.name)
        if ref is not None and there is not None:
            self.holding.contain(ref, frozenset({POOL}))

    def _place(self, there: Cluster) -> tuple[str, str]:
        return f"{there.project}/{there.location}", there.name

    def _location(self) -> str:
        """Returns where the cluster is: as the lease says, else as the config does."""
        for ref in self.holding.lease.resources:
            if ref.kind == CLUSTER and ref.name == self.name:
                return ref.scope.partition("/")[2]
        return self.config.location

    def _scope(self) -> str:
        return f"{self.container.project}/{self._location()}"

    def _pool_scope(self) -> str:
        return f"{self._scope()}/{self.name}"

    # Whose it is

    def is_ours(self, there: Cluster) -> bool:
        """Whether the cluster was made under this lease, and not there before."""
        return self._is_mine(there.labels)

    def _is_mine(self, labels: Mapping[str, str]) -> bool:
        labelled = read_labels(labels)
        lease = self.holding.lease.lease_id
        return labelled is not None and (labelled.lease_id, labelled.ledger_id) == (
            lease,
            self.holding.ledger.id,
        )

    def _good(self, there: Cluster) -> list[Pool]:
        return [
            pool
            for pool in there.pools
            if self._is_mine(pool.labels) and pool.name != CPU_POOL and pool.state == "RUNNING"
        ]

    def _refuse_others(self, there: Cluster | None) -> None:
        """Raises BadInput for a cluster or pool that another's lease stands behind, or of whom nobody knows."""
        if there is None:
            return
        if not (self.config.zone == there.location or self.config.zone.startswith(f"{there.location}-")):
            raise BadInput(
                f"cluster {self.name} is in {there.location}, and not where {self.config.zone} is",
                fix="choose another name, or a zone there",
            )
        whose = read_labels(there.labels)
        if whose is not None and not self._is_mine(there.labels):
            raise BadInput(
                f"cluster {self.name} in {there.location} was made by {whose.owner}'s lease {whose.lease_id}",
                fix="choose another name, or use it as it is: name it in a target",
            )
        if self.beside and not self.config.counts_nodes:
            return
        wanted = (
            {pool_name(index) for index in range(max(1, self.config.slices))} if self.config.type else set()
        )
        others = [pool.name for pool in there.pools if pool.name in wanted and not self._is_mine(pool.labels)]
        if others:
            raise BadInput(
                f"node pool {others[0]} of {self.name} is there, and not made under this lease: it is left alone",
                fix="choose another cluster, or delete that pool",
            )


def find(container: Container, name: str, location: str = "") -> Cluster | None:
    """Returns the cluster of a name: in this location where there is one, else wherever there is only one.

    Raises BadInput when several locations have one of the name, and none is meant.
    """
    found = [one for one in container.clusters() if one.name == name]
    here = [one for one in found if one.location == location]
    if here or len(found) < 2:
        return next(iter((*here, *found)), None)
    where = ", ".join(sorted(one.location for one in found))
    raise BadInput(f"there are several clusters {name}: in {where}", fix="name the location with --location")
