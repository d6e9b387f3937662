"""Clusters of GKE that people keep: made under a lease of their own, repaired, resized, looked at, given back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.contract.errors import BadInput, InfrastructureError, Leaked
from tasks.cloud.container_model import Cluster
from tasks.cloud.resource_names import problem_with
from tasks.config.as_flags import Flags
from tasks.config.cluster import ClusterConfig
from tasks.config.findings import checked
from tasks.leases.claim import claim
from tasks.leases.clusters import lease_name
from tasks.leases.holding import Holding
from tasks.leases.lease import HELD, Lease
from tasks.leases.ledger import latest
from tasks.leases.made import made_under, told
from tasks.leases.patience import USUAL
from tasks.leases.resizing import bring_back
from tasks.leases.resource import ResourceRef
from tasks.leases.standing import give_back_half_made, holds_nothing
from tasks.leases.stopped import refuse_unproven, telling_what_stands
from tasks.stages.by_name import give_back
from tasks.stages.cluster_standing import Office, Standing, describe, existing, seen
from tasks.stages.cluster_used import goes_on_in
from tasks.targets.cluster_book import shape_of, sized
from tasks.targets.cluster_check import against
from tasks.targets.cluster_find import find
from tasks.targets.cluster_making import NotWhole, Works
from tasks.targets.cluster_plan import ClusterPlan, labelling, plan
from tasks.targets.cluster_price import price_of
from tasks.targets.cluster_requests import check_requests
from tasks.targets.kube_install import NotReady

LONGEST = 40
"""Characters that the name of a cluster may have."""

Unit = Literal["slices", "nodes"]
"""What the size of a cluster is told in: TPU slices, or GPU and CPU machines."""

Agree = Callable[[ClusterPlan], bool]
"""Is shown what is about to be done; says whether to go on."""


class Declined(BadInput):
    """Nobody agreed to what was about to be done; nothing was."""


def preview(office: Office, name: str, config: ClusterConfig) -> ClusterPlan:
    """Returns what `create` would do, having checked what it checks. Asks the API, and changes nothing anywhere."""
    check(office, name, config)
    there, mine, unmarked = seen(office, name, config)
    busy = office.inside.busy(there) if there and there.state != "ERROR" and office.inside else None
    ours = there is None or mine(there.labels)
    try:
        _ready(office, config)
    except InfrastructureError as error:
        office.say(f"warning: it would not be made now: {error}")
    planned = plan(name, config, there, lambda pool: mine(pool.labels), busy, ours=ours)
    if there is None and find(office.container, name, config.location) is not None:
        office.say(f"warning: cluster {name} is being given back: that comes first, and is waited for")
    return labelling(planned, there) if there is not None and unmarked else planned


def create(
    office: Office,
    name: str,
    config: ClusterConfig,
    *,
    ttl_s: float | None = None,
    agree: Agree = lambda planned: True,
    partly: bool = False,
    lasting: bool = False,
) -> Standing:
    """Makes a cluster of this name as it is wanted, or makes it so: repairs, resizes. Called again it goes on.

    It is kept for `ttl_s` seconds from now, None: until somebody deletes it. A new one that is interrupted or cannot
    be had as a whole is given back, unless `partly` says to keep what could be had; one that was kept before stays,
    and so does a `lasting` one, whatever goes wrong, as far as it is whole: when it is interrupted, as it is.
    Raises BadInput, Declined, Taken, NotWhole, NotReady, ContainerError, Leaked.
    """
    check(office, name, config)
    _ready(office, config)
    kept = _kept(office, name)
    lease = lease_name(office.container.project, name)
    holding = claim(office.ledger, office.inventories, lease, None, say=office.say, go_on=office.go_on)
    until = time.time() + ttl_s if ttl_s is not None else None
    if lasting and kept is None:
        holding.describe(shape_of(config), None)
        holding.stand(until)
    making = _Making(office, name, config, holding, kept, lasting)
    try:
        with holding.renewing():
            try:
                _carry_out(office, name, config, holding, agree)
            except (NotWhole, NotReady) as error:
                if partly or making.stays:
                    _keep_part(making, error, until if kept is None else kept.stands_until)
                raise
            _keep(holding, config, until)
    except BaseException as ended_by:
        if holding.lease.owner is not None:
            _put_back(making, ended_by)
        raise
    return describe(office, name)


def resize(
    office: Office, name: str, size: int, unit: Unit | None = None, *, agree: Agree = lambda planned: True
) -> Standing:
    """Gives a cluster that `create` made another number of slices (or GPU and CPU machines). Otherwise as `create`."""
    config = resized(office, name, size, unit)
    lease = _kept(office, name)
    until = lease.stands_until if lease else None
    ttl_s = max(0.0, until - time.time()) if until is not None else None
    return create(office, name, config, ttl_s=ttl_s, agree=agree)


def resized(office: Office, name: str, size: int, unit: Unit | None = None) -> ClusterConfig:
    """Returns the config with which a cluster was made, for another size.

    Raises BadInput when there is none, or when its size is not told in `unit`.
    """
    lease = _kept(office, name)
    written = lease.shape.get("config") if lease else None
    if written is None:
        raise BadInput(
            f"no lease of this ledger ({office.ledger.uri}) keeps a cluster {name!r}",
            fix="see slicebench cluster list; `cluster create` with the same flags finishes one that is half made",
        )
    about = f"the lease of cluster {name} does not say how it was made"
    fix = f"slicebench cluster create {name}, with the flags it was made with"
    config = checked(ClusterConfig, json.loads(written), about=about, fix=fix)
    if config.type is None and size:
        fix = f"slicebench cluster create {name} --type TYPE --slices {size}, with the flags it was made with"
        raise BadInput(f"cluster {name} was made without accelerators", fix=fix)
    counted: Unit = "nodes" if config.counts_nodes else "slices"
    if unit not in (None, counted) and config.type is not None:
        raise BadInput(
            f"cluster {name} has {config.type}, which is counted in {counted}", fix=f"--{counted} {size}"
        )
    return checked(ClusterConfig, {**json.loads(written), counted: size}, Flags())


def delete(
    office: Office, name: str, *, agree: Callable[[Sequence[str]], bool] = lambda going_on: True
) -> Sequence[ResourceRef]:
    """Gives back what was made for a cluster of this name, half made ones too; returns what went.

    `agree` is shown what goes on in it, if anything does. One that was there before stays, without the slices that were
    added. Raises BadInput when slicebench did not make it, Declined, Taken while somebody works on it or runs use it,
    Leaked.
    """
    going_on = goes_on_in(office, name)
    if going_on and not agree(going_on):
        raise Declined(f"cluster {name} stays: nobody agreed")
    return give_back(
        office.ledger, office.inventories, lease_name(office.container.project, name), name,
        what=f"cluster {name!r}", listed_by="slicebench cluster list", say=office.say, go_on=office.go_on,
    )  # fmt: skip


def check(office: Office, name: str, config: ClusterConfig) -> None:
    """Refuses what cannot be made: first what needs nobody to be asked. Raises as `check_place`."""
    problem = problem_with(name, LONGEST, "a cluster")
    if problem is not None:
        raise BadInput(problem)
    check_requests(name, config, office.container.project, {})
    check_place(office, config)


def check_place(office: Office, config: ClusterConfig) -> None:
    """Asks whether place, version and machines are there. Raises BadInput, PermissionDenied."""
    problems = against(office.container, config)
    if any(one.severity == "error" for one in problems):
        raise BadInput([one for one in problems if one.severity == "error"])
    for one in problems:
        office.say(str(one))


def _carry_out(office: Office, name: str, config: ClusterConfig, holding: Holding, agree: Agree) -> None:
    works = _works(office, name, config, holding)
    works.settle()
    there = works.look()
    planned = works.plan(there)
    works.check()
    if not agree(planned):
        raise Declined(f"cluster {name} stays as it is: nobody agreed")
    theirs = there is not None and not works.is_ours(there)
    apart = theirs and office.inside is not None and config.queueing.install
    made = works.carry_out(planned, there, apart=apart)
    _set_up(office, made, config, holding)


def _set_up(office: Office, made: Cluster, config: ClusterConfig, holding: Holding) -> None:
    if office.inside is None or not config.queueing.install:
        return
    if _works(office, made.name, config, holding).is_ours(made):
        office.inside.set_up(made, config)
    else:
        office.inside.add(made, config, holding)


def _works(office: Office, name: str, config: ClusterConfig, holding: Holding) -> Works:
    busy = office.inside.busy if office.inside else None
    return Works(office.container, holding, name, config, office.say, office.poll_s, ask_busy=busy)


def _keep(holding: Holding, config: ClusterConfig, until: float | None) -> None:
    """Lets the cluster stay: from now on it is put back, and not deleted, when somebody who works on it dies."""
    holding.describe(shape_of(config), price_of(config))
    holding.live()
    holding.stand(until)
    holding.detach(until)


@dataclass(frozen=True)
class _Making:
    """A cluster that is made, or made so. `kept`: the lease it was kept under before; `lasting` as in `create`."""

    office: Office
    name: str
    config: ClusterConfig
    holding: Holding
    kept: Lease | None
    lasting: bool

    @property
    def stays(self) -> bool:
        """Whether it is there afterwards, whatever goes wrong."""
        return self.kept is not None or self.lasting

    def leave(self) -> None:
        """Lets it stand as it stood."""
        self.holding.detach((self.holding.lease if self.kept is None else self.kept).stands_until)


def _keep_part(making: _Making, error: NotWhole | NotReady, until: float | None) -> None:
    """Keeps what could be had of a cluster that is not there as a whole, set up as far as it is."""
    office, config = making.office, making.config
    came = config
    try:
        if isinstance(error, NotWhole):
            came = sized(config, 0 if config.counts_nodes else len(error.there))
            _set_up(office, existing(office, making.name, config.location), config, making.holding)
    finally:
        _keep(making.holding, came, until)


def _put_back(making: _Making, ended_by: BaseException) -> None:
    """Leaves a cluster that could not be made as `create` says. Raises Leaked; `ended_by` where that goes wrong."""
    office, name = making.office, making.name
    try:
        if making.lasting and not isinstance(ended_by, Exception):
            _leave(making)  # it was interrupted: whoever goes on finds it as it is
        else:
            _back_out(making, ended_by)
    except InfrastructureError as error:
        told = f"cluster {name} could not be put back: {error}; do the same again"
        if isinstance(ended_by, KeyboardInterrupt):  # which would say that all was given back
            raise Leaked(told) from error
        office.say(f"warning: {told}")  # what it ended by is what is told
        raise ended_by from error
    except KeyboardInterrupt as again:
        if not making.stays:
            raise
        what = f"interrupted before cluster {name} was put back as it was"
        does = "`slicebench reap` does that, or do the same again" if office.reaped else office.go_on
        raise Leaked(f"{what}; {does}") from again


def _leave(making: _Making) -> None:
    """Lets what is under way be as it is, and go on by itself: the next one waits for it, and takes it for made."""
    holding = making.holding
    if holds_nothing(holding.lease) and making.kept is None:
        holding.release("nothing was made")
        return
    under_way = [ref for ref in holding.lease.resources if ref.half]
    if under_way:
        making.office.say(
            f"{told(under_way)} may still be in the making at GKE: left to it, and looked at when this is done again"
        )
    making.leave()


def _back_out(making: _Making, ended_by: BaseException) -> None:
    """Puts a cluster back that was kept before or stays, without what is half made; gives a new one back.

    Raises Leaked.
    """
    office, holding, kept = making.office, making.holding, making.kept
    if making.stays:
        with holding.renewing():  # what is under way on it may take long
            give_back_half_made(holding, USUAL)
            _works(office, making.name, making.config, holding).settle()
            for line in bring_back(holding, USUAL):
                office.say(line)
        if (kept is not None and holds_nothing(kept)) or not holds_nothing(holding.lease):
            making.leave()
            return
    made = made_under(holding.lease)
    with telling_what_stands(office.ledger, holding.lease, office.go_on):
        if made:
            office.say(f"giving back {told(made)}: it was not made whole")
        done = holding.release("it was not made whole")
    refuse_unproven(done, ended_by, office.go_on)
    if made:
        office.say("given back: nothing of it is left")


def _kept(office: Office, name: str) -> Lease | None:
    """Returns the lease under which a cluster of this name is kept."""
    lease = latest(office.ledger, lease_name(office.container.project, name))
    return lease if lease is not None and lease.state in HELD and lease.stands else None


def _ready(office: Office, config: ClusterConfig) -> None:
    """Sees that what is put into the cluster can be had: only now, for it may be fetched from far away."""
    if office.inside is not None:
        office.inside.ready(config)
