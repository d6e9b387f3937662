"""Where an environment is worked on: its project, its record, and what looks at and makes each kind of its things."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.buckets import Buckets
from tasks.cloud.container import Container
from tasks.cloud.container_errors import AlreadyExists, PermissionDenied, Throttled, Unavailable
from tasks.cloud.google_place import choose_project
from tasks.cloud.google_rest import Rest
from tasks.cloud.labels import EXPIRES, read_labels
from tasks.cloud.things import Changeable, Sort, Thing, same_owner
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried
from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger, Listing, Unwritable, latest
from tasks.leases.opening import open_ledger
from tasks.stages.cluster_inside import Inside
from tasks.stages.cluster_standing import Office
from tasks.stages.environment_inside import inside_of
from tasks.targets.environment_diff import Step, step_for
from tasks.targets.environment_wanted import Wanted

KIND_OF: Mapping[str, str] = {
    "network": kinds.NETWORK,
    "subnetwork": kinds.SUBNETWORK,
    "router": kinds.ROUTER,
    "firewall": kinds.FIREWALL,
    "service account": kinds.ACCOUNT,
    "role": kinds.PROJECT_ROLE,
    "bucket": kinds.BUCKET,
    "bucket role": kinds.BUCKET_ROLE,
    "repository": kinds.REPOSITORY,
    "tensorboard": kinds.TENSORBOARD,
    "account role": kinds.ACCOUNT_ROLE,
}
"""Kinds that an environment's own lease has, by what people call them."""


@dataclass(frozen=True)
class Desk:
    """`inside` opens what is put into the cluster; None: nothing is."""

    project: str
    ledger: Ledger
    inventories: Inventories
    container: Container
    say: Callable[[str], None] = lambda line: None
    inside: Callable[[EnvironmentConfig], Inside | None] = field(default=lambda config: None)
    timing: Timing = field(default_factory=Timing)
    poll_s: float = 5.0

    def office(self, config: EnvironmentConfig) -> Office:
        """Returns where the cluster is asked for."""
        inside = self.inside(config)
        return Office(self.container, self.ledger, self.inventories, self.say, self.poll_s, inside)

    def sort(self, wanted: Wanted) -> Sort:
        """Returns what looks at and makes such a thing."""
        return kinds.sort_of(KIND_OF[wanted.kind], self.timing)

    def step(self, config: EnvironmentConfig, wanted: Wanted) -> Step:
        """Looks at a thing, and returns what has to be done about it. Raises ContainerError."""
        kind, sort = KIND_OF[wanted.kind], self.sort(wanted)
        try:
            there = sort.look(wanted.scope, wanted.name)
        except PermissionDenied as error:
            if wanted.kind == "bucket role":  # the bucket itself is refused
                return Step("make", wanted)
            if wanted.kind != "bucket":
                raise
            why = f"the name is taken by somebody whose bucket you may not look at ({error}): choose another name"
            return Step("refuse", wanted, why=why)
        ours, whose = self._whose(config, kind, wanted, there)
        in_place = sort.in_place if isinstance(sort, Changeable) else ()
        return step_for(wanted, there, ours=ours, in_place=in_place, whose=whose)

    def _whose(
        self, config: EnvironmentConfig, kind: str, wanted: Wanted, there: Thing | None
    ) -> tuple[bool, str]:
        """Returns whether a thing is of this environment, else which lease of slicebench made it, if one did."""
        if there is None:
            return False, ""
        name = kinds.lease_name(self.project, config.called)
        if kind in kinds.ROLES:
            lease = latest(self.ledger, name)
            ref = (
                lease.find(kind, wanted.scope, wanted.name)
                if lease and lease.state is not State.GONE
                else None
            )
            return ref is not None and ref.ours, ""
        labelled = read_labels(there.labels or {})
        if labelled is None:
            return False, ""
        mine = labelled.lease_id.rpartition("-e")[0] == name and labelled.ledger_id == self.ledger.id
        return mine, "" if mine else f"{labelled.lease_id} of {labelled.owner}"


class NoRecord:
    """The ledger of an environment whose record is not there yet. See Ledger."""

    id = "none"

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def exists(self) -> bool:
        """See Ledger."""
        return False

    def read(self, lease_id: str) -> Lease | None:
        """See Ledger."""
        return None

    def write(self, lease: Lease) -> Lease:
        """See Ledger."""
        raise Unwritable(f"there is no record at {self.uri}")

    def remove(self, lease: Lease) -> None:
        """See Ledger."""

    def listing(self) -> Listing:
        """See Ledger."""
        return Listing((), ())


def opened(
    config: EnvironmentConfig,
    project: str | None,
    say: Callable[[str], None],
    *,
    scratch: Path | None = None,
    timing: Timing | None = None,
) -> Desk:
    """Returns where an environment is worked on: its project, and the record that its file names, if that is there.

    Raises BadInput where no project is named, ContainerError where the record's bucket may not be looked at.
    """
    timing = timing or Timing()
    chosen = choose_project(project or config.project).value
    bucket = config.record.split("/")[2]
    rest = Rest("storage.googleapis.com", timing=timing)
    there = Buckets(rest=rest).look(chosen, bucket) is not None
    ledger: Ledger = open_ledger(config.record) if there else NoRecord(config.record)
    return Desk(
        chosen,
        ledger,
        open_inventories(ledger, scratch),
        Container(chosen),
        say,
        inside=lambda wanted: inside_of(wanted, chosen, say),
        timing=timing,
    )


def carry_out(desk: Desk, holding: Holding, step: Step) -> None:
    """Does what a step says, written down first. Raises BadInput for one that is refused, ContainerError, Fenced."""
    wanted, kind = step.wanted, KIND_OF[step.wanted.kind]
    sort = desk.sort(wanted)
    if step.do == "refuse":
        raise BadInput(str(step))
    if step.do == "make":
        desk.say(f"make {wanted}")
        labels = {key: value for key, value in holding.resource_labels.items() if key != EXPIRES}
        holding.create(kind, wanted.scope, wanted.name, partial(_make, desk, sort, wanted, labels))
        return
    there = step.there
    assert there is not None
    known = holding.lease.find(kind, wanted.scope, wanted.name)
    if step.do == "use":
        if known is None:
            holding.adopt(kind, wanted.scope, wanted.name, there.uid)
        return
    if known is None or known.uid != there.uid:  # of an earlier epoch, or found again after it had been left
        holding.create(kind, wanted.scope, wanted.name, lambda: there.uid)
    for one in step.differences:
        if not one.can:
            desk.say(f"warning: {wanted} stays as it is: {one} cannot be changed on what is there")
    changed = sorted({one.path.partition(".")[0] for one in step.differences if one.can})
    if changed:
        assert isinstance(sort, Changeable), "nothing else has differences that can be changed"
        desk.say(f"change {wanted}: {'; '.join(str(one) for one in step.differences if one.can)}")
        sort.change(wanted.scope, wanted.name, {name: wanted.fields[name] for name in changed}, there)


def settle(desk: Desk, holding: Holding) -> None:
    """Finds out of what an earlier try was about to make whether it is there: then it is the lease's."""
    for ref in [ref for ref in holding.lease.resources if ref.ours and ref.uid is None]:
        there = desk.inventories[ref.kind].get(ref)
        if there is None or there.uid is None:
            holding.forget(ref)
        else:
            holding.create(ref.kind, ref.scope, ref.name, partial(str, there.uid))


def _make(desk: Desk, sort: Sort, wanted: Wanted, labels: Mapping[str, str]) -> str:
    """Makes a thing; returns its uid. One of the same lease that is there already is it: a reply may be lost."""
    for pause in pauses(desk.timing, f"make {wanted}"):
        try:
            sort.make(wanted.scope, wanted.name, wanted.fields, labels)
        except (AlreadyExists, Unavailable) as error:
            there = None if isinstance(error, Throttled) else sort.look(wanted.scope, wanted.name)
            if there is not None:
                if wanted.kind.endswith("role") or same_owner(there.labels, labels):
                    return there.uid
                raise AlreadyExists(f"{wanted} was made by somebody else: choose another name") from error
            if pause is None or isinstance(error, AlreadyExists):
                raise
            tried(str(error))
        else:
            there = sort.look(wanted.scope, wanted.name)
            if there is not None:
                return there.uid
            if pause is None:
                raise Unavailable(f"{wanted} was made, and is not seen: do the same again")
        time.sleep(pause)
    raise AssertionError("the last pause is None")
