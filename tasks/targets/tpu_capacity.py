"""Gets slices of Cloud TPU for a lease: asks for them, tries the next zone, adopts what exists, gives back the dead."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.resource_names import name_of
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound, QuotaExhausted, StockedOut, Vanished
from tasks.cloud.tpu_model import GONE_BUT_THERE, NEVER_ACTIVE, Node, NodeRequest, Queued, QueuedRequest
from tasks.cloud.tpu_types import tpu_type
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.holding import Holding
from tasks.leases.patience import USUAL, Patience
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import NODE, QUEUED
from tasks.targets.tpu_wait import Say, TakenAway, TooLong, Wait


class NoCapacity(InfrastructureError):
    """No zone gave what was asked for; says of each why."""

    trouble = "stockout"


@dataclass(frozen=True)
class Slices:
    """The nodes of a lease, in the order of slices. `ours`: made for it, and given back with it."""

    nodes: Sequence[Node]
    ours: bool


@dataclass
class Desk:
    """Where slices are asked for. `poll_s` between looks; `say` hears what is waited for, when it changes."""

    tpu: CloudTpu
    config: TpuVmTargetConfig
    lease: Holding
    say: Say = lambda line: None
    metadata: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = 5.0
    now: Callable[[], float] = time.time
    name: str = ""
    """What is made is called so; empty: after the lease."""

    def acquire(self) -> Slices:
        """Returns slices whose workers are all there: adopted, or made in the first zone that has room.

        Called again for the same lease it goes on with what the lease has; what is dead of that is given back
        first. Raises NoCapacity, TooLong, Leaked, BadInput, TpuError.
        """
        if self.config.existing is not None:
            return Slices(self._adopt(self.config.existing), ours=False)
        self._bury()
        reasons: list[str] = []
        for zone in self._zones():
            if reasons and self.config.valid_until and self.config.valid_until.timestamp() <= self.now():
                reasons.append(f"{zone} was not asked, as valid_until is past")
                continue
            try:
                return Slices(self._make(zone), ours=True)
            except (StockedOut, QuotaExhausted, Vanished, TakenAway, TooLong) as error:
                reasons.append(str(error))
                self.say(f"{error}; giving back what was asked for in {zone}")
                self.give_back(zone)
        raise NoCapacity("no zone has room: " + "; ".join(reasons))

    def _bury(self) -> None:
        """Gives back what will not run any more, though it still holds quota."""
        for ref in [ref for ref in self.lease.lease.resources if ref.kind in (NODE, QUEUED) and ref.ours]:
            zone = ref.scope.partition("/")[2]
            try:
                if ref.kind == QUEUED:
                    dead = self.tpu.queued_resource(zone, ref.name).state in NEVER_ACTIVE
                else:
                    dead = self.tpu.node(zone, ref.name).state in GONE_BUT_THERE
            except NotFound:
                dead = ref.uid is not None  # without one, a create call may be under way
            if dead:
                self.say(f"{ref.kind} {ref.name} in {zone} was taken away: giving back what is left of it")
                self.lease.discard(ref, self._patience)

    def give_back(self, zone: str) -> None:
        """Deletes what the lease has in a zone. Raises Leaked when it cannot be proven gone."""
        for ref in self._made(zone):
            self.lease.discard(ref, self._patience)

    @property
    def _patience(self) -> Patience:
        return USUAL.within(self.config.limits.teardown_s)

    def _zones(self) -> Sequence[str]:
        """Returns the zones to try: first the one where the lease has something already."""
        begun = {
            ref.scope.partition("/")[2] for ref in self.lease.lease.resources if ref.kind in (NODE, QUEUED)
        }
        return sorted(self.config.zones, key=lambda zone: zone not in begun)

    def _made(self, zone: str) -> list[ResourceRef]:
        scope = f"{self.tpu.project}/{zone}"
        resources = self.lease.lease.resources
        return [ref for ref in resources if ref.kind in (NODE, QUEUED) and ref.scope == scope and ref.ours]

    def ask(self, zone: str) -> None:
        """Asks for the slices in a zone, without waiting for them; only for what has their name and is going."""
        name, scope = self._name(), f"{self.tpu.project}/{zone}"
        request = self._request()
        config = self.config
        if config.as_queued:
            wanted = QueuedRequest(request, name, config.slices, config.valid_after, config.valid_until)
            make = lambda: self.tpu.create_queued(zone, name, wanted).uid  # noqa: E731
        else:
            make = lambda: self.tpu.create_node(zone, name, request).uid  # noqa: E731
        kind = QUEUED if config.as_queued else NODE
        ask = lambda: self._wait().until_free(zone, name, make)  # noqa: E731
        self.lease.create(kind, scope, name, ask, dead_man=dead_man(config))

    def _wait(self) -> Wait:
        return Wait(self.tpu, self.config.limits, self.lease.check, self.say, self.poll_s, self.now)

    def _make(self, zone: str) -> Sequence[Node]:
        self.ask(zone)
        if self.config.as_queued:
            return self._wait().for_queued(zone, self._name())
        return self._wait().for_nodes(zone, [self._name()])

    def _name(self) -> str:
        return self.name or name_of(self.lease.lease.lease_id)

    def _request(self) -> NodeRequest:
        config = self.config
        return NodeRequest(
            type=config.type,
            runtime_version=config.runtime_version or tpu_type(config.type).runtime_version,
            labels=self.lease.resource_labels,
            tier=config.tier,
            reservation=config.reservation or "",
            metadata=self.metadata,
            network=config.network or "",
            subnetwork=config.subnetwork or "",
            external_addresses=config.addresses == "external",
            service_account=config.service_account or "",
            tags=config.tags,
            description=f"slicebench lease {self.lease.lease.lease_id}",
        )

    def _adopt(self, name: str) -> Sequence[Node]:
        """Records something that is there as adopted, and waits for it when it is on its way."""
        found = find(self.tpu, self.config.zones, name)
        kind = QUEUED if isinstance(found, Queued) else NODE
        self.lease.adopt(kind, f"{found.project}/{found.zone}", name, found.uid)
        try:
            if isinstance(found, Queued):
                return self._wait().for_queued(found.zone, name)
            return self._wait().for_nodes(found.zone, [name])
        except TakenAway as error:
            raise TakenAway(
                f"{error}; it is not ours, and stays as it is: name another with existing:, or let a run make its own"
            ) from error


def find(tpu: CloudTpu, zones: Sequence[str], name: str) -> Node | Queued:
    """Returns the queued resource, else the node, of exactly this name. Only "not found" leads to the next.

    Raises BadInput when there is none, or (no zone being named) one in several zones.
    """
    found: list[Node | Queued] = []
    if zones:
        for zone in zones:
            for look in (tpu.queued_resource, tpu.node):
                try:
                    return look(zone, name)
                except NotFound:
                    continue
    else:
        queued = [one for one in tpu.queued() if one.name == name]
        found = [*queued] or [one for one in tpu.nodes() if one.name == name]
    where = ", ".join(zones) if zones else "any zone"
    if not found:
        raise BadInput(
            f"there is no TPU VM or queued resource {name!r} in {where} of {tpu.project}",
            fix="see slicebench tpu list",
        )
    if len(found) > 1:
        raise BadInput(f"{name!r} is in {', '.join(one.zone for one in found)}", fix="name the zone")
    return found[0]


def nodes_of(tpu: CloudTpu, found: Node | Queued) -> Sequence[Node]:
    """Returns the nodes that are there of a queued resource; a node is its own."""
    if isinstance(found, Node):
        return [found]
    nodes = []
    for name in found.nodes:
        try:
            nodes.append(tpu.node(found.zone, name))
        except NotFound:
            continue
    return nodes


def dead_man(config: TpuVmTargetConfig) -> str:
    """Says what ends such a resource when everybody else is dead."""
    return "the service, when it needs the spot capacity" if config.tier == "spot" else "none"
