"""Where an environment is worked on: its project, its record, and what looks at and makes each kind of its things."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.buckets import Buckets
from tasks.cloud.compute import written
from tasks.cloud.container import Container
from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.cloud.google_place import choose_project
from tasks.cloud.google_rest import Rest
from tasks.cloud.labels import EXPIRES, OWNER, labels_for, read_labels
from tasks.cloud.things import Changeable, Nameless, Sort, Thing, Whose
from tasks.cloud.timing import Timing
from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger, Listing, Unwritable, latest
from tasks.leases.opening import open_ledger
from tasks.leases.resource import ResourceRef
from tasks.stages.cluster_inside import Inside
from tasks.stages.cluster_standing import Office
from tasks.stages.environment_inside import SOON, EnvironmentInside, inside_of
from tasks.stages.environment_making import made, seen_within
from tasks.targets.environment_diff import Difference, Step, step_for, to_send
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

MARKED_IN = ("labels", "description")
"""Where things say whose they are; what of it somebody took away is written again."""

GO_ON = "do the same again: nothing else gives it back, for an environment's record has no expiry"


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

    def office(self, config: EnvironmentConfig, *, soon: bool = False) -> Office:
        """Returns where the cluster is asked for. `soon`: what does not answer at once is not waited for."""
        inside = self.inside(config)
        if soon and isinstance(inside, EnvironmentInside):
            inside = replace(inside, fetching=SOON)
        return Office(
            self.container, self.ledger, self.inventories, self.say, self.poll_s, inside, go_on=GO_ON
        )

    def sort(self, wanted: Wanted) -> Sort:
        """Returns what looks at and makes such a thing."""
        return kinds.sort_of(KIND_OF[wanted.kind], self.timing)

    def step(self, config: EnvironmentConfig, wanted: Wanted) -> Step:
        """Looks at a thing, and returns what has to be done about it. Raises ContainerError."""
        kind, sort = KIND_OF[wanted.kind], self._sort_for(config, wanted)
        try:
            there = sort.look(wanted.scope, wanted.name)
        except Disabled:
            raise
        except PermissionDenied as error:
            if wanted.kind == "bucket role":  # the bucket itself is refused
                return Step("make", wanted)
            if wanted.kind != "bucket":
                raise
            why = f"the name is taken by somebody whose bucket you may not look at ({error}): choose another name"
            return Step("refuse", wanted, why=why)
        ours, whose = self._whose(config, kind, wanted, there)
        in_place = sort.in_place if isinstance(sort, Changeable) else ()
        step = step_for(wanted, there, ours=ours, in_place=in_place, whose=whose)
        where = next((one for one in MARKED_IN if one in in_place), "")
        return self._labelled(config, step, where) if ours and where else step

    def sort_for(self, wanted: Wanted, uid: str | None, lease: str) -> Sort:
        """Returns what looks at just this one of a lease."""
        sort = self.sort(wanted)
        return sort.known_by(uid, Whose(lease, self.ledger.id)) if isinstance(sort, Nameless) else sort

    def _sort_for(self, config: EnvironmentConfig, wanted: Wanted) -> Sort:
        ref = self._made(config, wanted)
        uid = ref.uid if ref is not None and ref.ours else None
        return self.sort_for(wanted, uid, kinds.lease_name(self.project, config.called))

    def has_made(self, config: EnvironmentConfig, wanted: Wanted) -> bool:
        """Whether the record has a thing as made for this environment."""
        ref = self._made(config, wanted)
        return ref is not None and ref.ours

    def _made(self, config: EnvironmentConfig, wanted: Wanted) -> ResourceRef | None:
        """Returns what the record has of a thing, if anything."""
        lease = latest(self.ledger, kinds.lease_name(self.project, config.called))
        if lease is None or lease.state is State.GONE:
            return None
        return lease.find(KIND_OF[wanted.kind], wanted.scope, wanted.name)

    def whose(self, config: EnvironmentConfig) -> Whose:
        """Returns what the labels of an environment's things say."""
        return Whose(kinds.lease_name(self.project, config.called), self.ledger.id)

    def _labelled(self, config: EnvironmentConfig, step: Step, where: str) -> Step:
        """Adds to what is to be done that is written again `where` it stood whose a thing is."""
        there, whose = step.there, self.whose(config)
        if there is None or whose.made(there.labels):
            return step
        lease = latest(self.ledger, whose.lease)
        labels = labels_for(lease.lease_id if lease is not None else whose.lease, whose.ledger)
        kept = {key: value for key, value in labels.items() if key != OWNER}
        if where == "description":
            lost = [Difference(where, there.fields.get(where), written(kept), can=True)]
        else:
            had = there.labels or {}
            lost = [
                Difference(f"{where}.{key}", had.get(key), value, can=True)
                for key, value in kept.items()
                if had.get(key) != value
            ]
        return replace(step, do="change", differences=(*step.differences, *lost))

    def _whose(
        self, config: EnvironmentConfig, kind: str, wanted: Wanted, there: Thing | None
    ) -> tuple[bool, str]:
        """Returns whether a thing is of this environment, else which lease of slicebench made it, if one did."""
        if there is None:
            return False, ""
        ref = self._made(config, wanted)
        if ref is not None and ref.ours and (kind in kinds.ROLES or ref.uid == there.uid):
            return True, ""
        labelled = read_labels(there.labels or {})
        if labelled is None:
            return False, ""
        if self.whose(config).made(there.labels):
            return True, ""
        here = labelled.ledger_id == self.ledger.id
        other = kinds.called(labelled.lease_name, self.project) if here else ""
        known = f" (environment {other} of this record)" if other else ""
        return False, f"{labelled.lease_id} of {labelled.owner}{known}"


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


def project_of(
    config: EnvironmentConfig, project: str | None, environ: Mapping[str, str] = os.environ
) -> str:
    """Returns the project that an environment is in. Raises BadInput where none is named."""
    how = "write project: in the environment's file, give --project"
    return choose_project(project or config.project, environ, how=how).value


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
    chosen = project_of(config, project)
    bucket = config.record.split("/")[2]
    rest = Rest("storage.googleapis.com", timing=timing)
    try:
        there = Buckets(rest=rest).look(chosen, bucket) is not None
    except Disabled:  # nothing can be there
        there = False
    except PermissionDenied as error:
        raise BadInput(
            f"record: bucket {bucket} is somebody's who does not let you look at it ({error})",
            fix="name another one, or have its owner let you in",
        ) from error
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
    if step.do == "refuse":
        raise BadInput(str(step))
    labels = {key: value for key, value in holding.resource_labels.items() if key != EXPIRES}
    if step.do == "make":
        desk.say(f"make {wanted}")
        sort = desk.sort_for(wanted, None, holding.lease.name)
        holding.create(kind, wanted.scope, wanted.name, partial(made, desk, sort, wanted, labels))
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
    for ref in holding.lease.resources:
        if kind in kinds.NAMELESS and (ref.kind, ref.uid) == (kind, there.uid) and ref.name != wanted.name:
            holding.forget(ref)  # the same, by the name that it had before
    for one in step.differences:
        if not one.can:
            desk.say(
                f"warning: {wanted} stays as it is: {one} cannot be changed on what is there: {one.instead}"
            )
    _change(desk, step, there, labels)


def settle(desk: Desk, holding: Holding) -> None:
    """Finds out of what an earlier try was about to make whether it is there: then it is the lease's."""
    for ref in [ref for ref in holding.lease.resources if ref.ours and ref.uid is None]:
        inventory = desk.inventories[ref.kind]
        late_s = (
            inventory.settle_s if ref.kind in kinds.NAMELESS else 0.0
        )  # what is asked for by name is seen at once
        there = seen_within(late_s, partial(inventory.get, ref), desk.timing)
        if there is None or there.uid is None:
            holding.forget(ref)
        else:
            holding.create(ref.kind, ref.scope, ref.name, partial(str, there.uid))


def _change(desk: Desk, step: Step, there: Thing, labels: Mapping[str, str]) -> None:
    wanted = step.wanted
    fields = to_send(wanted, step.differences)
    if any(one.path.partition(".")[0] in MARKED_IN for one in step.differences):
        fields["labels"] = {**(there.labels or {}), **labels}
    if not fields:
        return
    sort = desk.sort(wanted)
    assert isinstance(sort, Changeable), "nothing else has differences that can be changed"
    desk.say(f"change {wanted}: {'; '.join(str(one) for one in step.differences if one.can)}")
    sort.change(wanted.scope, wanted.name, fields, there)
