"""Makes a cluster as it is wanted, for a lease: step by step, each written down first, waited for and looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from runtime.contract.errors import InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.container_errors import (
    Broken,
    ContainerError,
    QuotaExhausted,
    ReservationShort,
    StockedOut,
)
from tasks.cloud.container_fields import Fields
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.labels import EXPIRES
from tasks.cloud.pool_sizes import as_now
from tasks.config.cluster import ClusterConfig
from tasks.leases.clusters import CLUSTER, POOL, is_unmarked, pool_reference, reference
from tasks.leases.holding import Holding
from tasks.leases.patience import USUAL, Patience
from tasks.leases.resource import ResourceRef
from tasks.targets.cluster_asked import CLUSTER_S, POOL_S, Asked
from tasks.targets.cluster_book import Book
from tasks.targets.cluster_find import find, refuse_others
from tasks.targets.cluster_placing import placed
from tasks.targets.cluster_plan import ClusterPlan, Step, labelling, plan
from tasks.targets.cluster_requests import (
    CPU_POOL,
    check_requests,
    cluster_request,
    cpu_pool_request,
    dead_man,
    pool_request,
)

Say = Callable[[str], None]
Busy = Callable[[Cluster], Mapping[str, bool]]
"""Says of the node pools of a cluster whether something runs on them, as far as it can be seen."""


class NotWhole(InfrastructureError):
    """Some slices could not be made; `there` names the node pools that are there, `causes` says why by pool."""

    def __init__(self, name: str, there: Sequence[str], causes: Mapping[str, ContainerError]) -> None:
        pools: dict[str, list[str]] = {}
        for pool, error in causes.items():
            pools.setdefault(str(error), []).append(pool)
        told = "; ".join(f"{', '.join(failed)}: {why}" for why, failed in pools.items())
        has = f"{len(there)} of {len(there) + len(causes)} node pools of {name} are there"
        super().__init__(f"{has}: {told}")
        self.there, self.causes = tuple(there), causes
        self.trouble = next((error.trouble for error in causes.values() if error.trouble), None)


@dataclass
class Works:
    """A cluster in the making, or being changed. One that was there before is adopted; then only its slices are ours.

    `ask_busy` is asked which slices are idle. `poll_s` between looks; `patience` for what is given back; `limit_s` for
    all that is made. `beside`: node pools of others that have our names are left alone, and ours get other names.
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
    _apart: bool = field(default=False, init=False)
    _unmarked: bool = field(default=False, init=False)
    _failed: dict[str, ContainerError] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._book = Book(self.holding, self.container.project, self.name, self.config)
        self._asked = Asked(
            self.container, self.holding, self.name, self._book.location, self.say, self.poll_s, self.limit_s
        )

    def look(self) -> Cluster | None:
        """Returns the cluster of this name, with labels that somebody took away. BadInput where there are several."""
        there = find(self.container, self.name, self._book.location(), sure=self.config.counts_nodes)
        self._unmarked = there is not None and is_unmarked(self.holding.lease, there)
        return replace(there, labels=self._labels(there.labels)) if there and self._unmarked else there

    def plan(self, there: Cluster | None) -> ClusterPlan:
        """Returns what is to be done. Raises BadInput where something of another stands in the way."""
        if there is not None:
            refuse_others(there, self.config, self._book.is_mine, beside=self.beside)
        busy = (
            self.ask_busy(there) if self.ask_busy and there is not None and there.state != "ERROR" else None
        )
        ours = there is None or self._book.is_mine(there.labels)
        planned = plan(
            self.name, self.config, there, lambda pool: self._book.is_mine(pool.labels), busy, ours=ours
        )
        return labelling(planned, there) if there is not None and self._unmarked else planned

    def settle(self) -> None:
        """Ends what an earlier try left: waits for its operations, and finds out what of its intents is there."""
        self._asked.end_all()
        for ref in [ref for ref in self.holding.lease.resources if ref.ours and ref.uid is None]:
            there = self.holding.inventories[ref.kind].get(ref)
            if there is None or there.uid is None:
                self.holding.discard(ref, self.patience)
            else:
                known = partial(str, there.uid)
                self.holding.create(
                    ref.kind, ref.scope, ref.name, known, dead_man=ref.dead_man, half=ref.half
                )

    def check(self) -> None:
        """Raises BadInput for what the API could not read, before anything is made."""
        check_requests(self.name, self.config, self.container.project, self.holding.resource_labels)

    def carry_out(self, planned: ClusterPlan, there: Cluster | None, *, apart: bool = False) -> Cluster:
        """Does what was planned; returns the cluster as it then is. `apart`: others' pods are kept off what is made.

        A slice that cannot be had is given back, and the others are made all the same; then NotWhole is raised.
        Raises ContainerError for what would fail for every slice, Leaked, Fenced.
        """
        self._apart = apart
        self._failed.clear()
        self._book.open(there)
        for step in planned.steps:
            self._do(step)
        self._await_sizes()
        made = self.container.cluster(self._book.location(), self.name)
        made = as_now(made, self.container.timing, sure=self.config.counts_nodes)
        self._settled(made)
        if self._failed:
            raise NotWhole(self.name, [pool.name for pool in self._good(made)], self._failed)
        return made

    # The steps

    def _do(self, step: Step) -> None:
        self.say(str(step))
        match step.do:
            case "make cluster":
                self._make_cluster()
            case "replace cluster":
                self._give_back(CLUSTER, self._book.scope, step.name)
                self._make_cluster()
            case "label cluster":
                self.container.set_labels(self._book.location(), step.name, self._labels)
            case "make policy":
                placed(self.holding, self.container, self.config)
            case "make pool":
                self._make_pool(step.name)
            case "replace pool":
                self._give_back(POOL, self._book.pool_scope, step.name)
                self._make_pool(step.name)
            case "remove pool":
                self._give_back(POOL, self._book.pool_scope, step.name)
            case "resize pool":
                self._resize_pool(step.name)
            case "wait for":
                self._await_made(step.name)

    def _labels(self, there: Mapping[str, str]) -> Mapping[str, str]:
        """Returns labels with ours, but for one that would say when this process's term ends."""
        ours = self.holding.resource_labels
        return {**there, **{key: ours[key] for key in ours if key != EXPIRES}}

    def _make_cluster(self) -> None:
        labels = self.holding.resource_labels
        request = cluster_request(self.name, self.config, self.container.project, labels)
        operation = ""

        def make() -> str:
            nonlocal operation
            made, operation = self.container.create_cluster(self._book.location(), request)
            self._asked.note(operation)
            return made.uid

        ref = self.holding.create(CLUSTER, self._book.scope, self.name, make, half=True)
        self.holding.contain(ref, frozenset({POOL}))
        self._asked.follow(operation, CLUSTER_S)
        self._asked.await_cluster()
        self._book.whole(self.name)

    def _make_pool(self, name: str) -> None:
        if name == CPU_POOL:
            self._make_one(name, cpu_pool_request(self.config, self.holding.resource_labels))
            return
        spent = next((one for one in self._failed.values() if isinstance(one, QuotaExhausted)), None)
        if spent is not None:  # nor is there any for the next one
            self._fail(name, spent)
            return
        shape = self.config.shape
        assert shape is not None
        *others, last = self.config.reservations or ("",)
        for reservation in (*others, last):
            config = placed(self.holding, self.container, self.config)
            labels = self.holding.resource_labels
            request = pool_request(name, config, shape, labels, reservation, apart=self._apart)
            try:
                self._make_one(name, request)
            except ReservationShort as error:
                if reservation is last:
                    self._fail(name, error)
                else:
                    self.say(f"{error}; trying the next reservation")
            except (StockedOut, QuotaExhausted, Broken) as error:
                self._fail(name, error)
                return
            else:
                self._failed.pop(name, None)
                return

    def _resize_pool(self, name: str) -> None:
        self._book.resizing(name)
        nodes = self.config.machines
        operation = self.container.resize_pool(self._book.location(), self.name, name, nodes)
        self._asked.note(operation)
        self._asked.follow(operation, POOL_S)
        self._asked.await_pool(name)
        self._book.resized(name)

    def _settled(self, made: Cluster) -> None:
        """Says of what is there that it is as it was wanted: also of a size that somebody had asked for before."""
        self._book.whole(self.name, *(pool.name for pool in made.pools if pool.state == "RUNNING"))
        for ref in [ref for ref in self.holding.lease.resources if ref.resizing is not None]:
            self._book.resized(ref.name)

    def _fail(self, name: str, error: ContainerError) -> None:
        self.say(str(error))
        self._failed[name] = error

    def _make_one(self, name: str, request: Fields) -> None:
        """Makes a node pool; one that does not come up as it should is given back before the error is raised."""
        operation = ""

        def make() -> str:
            nonlocal operation
            made, operation = self.container.create_pool(self._book.location(), self.name, request)
            self._asked.note(operation)
            return made.uid

        try:
            self.holding.create(
                POOL, self._book.pool_scope, name, make, dead_man=dead_man(self.config), half=True
            )
            self._asked.follow(operation, POOL_S)
            self._asked.await_pool(name)
            self._book.made(name)
        except ContainerError:
            self._give_back(POOL, self._book.pool_scope, name)
            raise

    def _give_back(self, kind: str, scope: str, name: str) -> None:
        """Deletes something of the lease, and looks that it is gone. Who is killed meanwhile leaves that to others."""
        ref = self.holding.lease.find(kind, scope, name) or self._found(kind, name)
        if ref is not None:
            self._book.going(ref)
            self.holding.discard(ref, self.patience)

    def _found(self, kind: str, name: str) -> ResourceRef | None:
        """Returns something that was made with the cluster, and stands in no lease by itself: its CPU pool."""
        there = self.container.cluster(self._book.location(), self.name)
        if kind == CLUSTER:
            return reference(there)
        pool = there.pool(name)
        return pool_reference(pool) if pool is not None and self._book.is_mine(pool.labels) else None

    # Waiting

    def _await_made(self, name: str) -> None:
        if name == self.name:
            self._asked.await_cluster()
            return
        try:
            self._asked.await_pool(name)
        except ContainerError as error:
            self._give_back(POOL, self._book.pool_scope, name)
            self._fail(name, error)

    def _await_sizes(self) -> None:
        """Waits for machines that somebody asked for who is dead: where as many are wanted, no step is."""
        for ref in [ref for ref in self.holding.lease.resources if ref.resizing is not None]:
            self._asked.await_pool(ref.name)

    def is_ours(self, there: Cluster) -> bool:
        """Whether the cluster was made under this lease, and not there before."""
        return self._book.is_mine(there.labels)

    def _good(self, there: Cluster) -> list[Pool]:
        return [
            pool
            for pool in there.pools
            if self._book.is_mine(pool.labels) and pool.name != CPU_POOL and pool.state == "RUNNING"
        ]
