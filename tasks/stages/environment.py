"""Environments: what one is made of and costs, how it differs from what is there; made, changed and given back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput, Leaked, Problem
from tasks.cloud import services
from tasks.cloud.buckets import Buckets
from tasks.cloud.container_document import document
from tasks.cloud.container_errors import NotFound
from tasks.cloud.google_place import choose_project
from tasks.cloud.google_rest import Rest
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_roles import Need, apis_for, needs_of
from tasks.leases import environments as kinds
from tasks.leases.claim import claim
from tasks.leases.clusters import lease_name as cluster_lease
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.leases.resource import ResourceRef
from tasks.stages import clusters
from tasks.stages.environment_desk import KIND_OF, Desk, NoRecord, carry_out, settle
from tasks.targets.cluster_price import price_of
from tasks.targets.environment_diff import Difference, Step, differences
from tasks.targets.environment_wanted import Wanted, wanted

_IN_CLUSTER = frozenset({"account role", "namespace", "kubernetes account", "queue"})
"""What comes after the cluster: its pool of identities must be there, or it is inside."""


@dataclass(frozen=True)
class Preview:
    """An environment as it is to be. `price_per_hour` is of its TPUs, in US dollars; None: not known."""

    name: str
    project: str
    record: str
    wanted: Sequence[Wanted]
    needs: Sequence[Need]
    hosts_per_pool: int
    chips: int
    price_per_hour: float | None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """What would be done, in this order. `cluster`: steps on the cluster, as `cluster create --dry-run` has them."""

    bootstrap: str
    """The bucket that is made for the record; empty: it is there."""
    off: Sequence[str]
    lacking: Sequence[str]
    steps: Sequence[Step]
    cluster: Sequence[str]
    differs: Mapping[str, Sequence[Difference]]

    @property
    def empty(self) -> bool:
        """Whether all is as it is wanted."""
        idle = all(step.do in ("keep", "use") for step in self.steps)
        return idle and not (self.bootstrap or self.off or self.cluster or self.differs)

    @property
    def problems(self) -> list[Problem]:
        """What stops it before anything is made."""
        found = [
            Problem("error", None, f"{one.wanted}: {one.why}") for one in self.steps if one.do == "refuse"
        ]
        if self.lacking:
            what = f"you may not do all that is needed: {', '.join(self.lacking)}"
            fix = "docs/environment.md says which roles have these, and why each is needed"
            found.append(Problem("error", None, what, fix=fix))
        return found


def preview(
    config: EnvironmentConfig, project: str | None = None, environ: Mapping[str, str] = os.environ
) -> Preview:
    """Returns what an environment would be. Asks nobody. Raises BadInput where no project is named."""
    chosen = choose_project(project or config.project, environ).value
    shape = config.shape
    return Preview(
        name=config.called,
        project=chosen,
        record=config.record,
        wanted=wanted(config, chosen),
        needs=needs_of(config),
        hosts_per_pool=shape.hosts,
        chips=shape.chips * config.tpu_pools,
        price_per_hour=price_of(cluster_of(config, chosen)) if config.tpu_pools else 0.0,
        warnings=warnings(config),
    )


def warnings(config: EnvironmentConfig) -> tuple[str, ...]:
    """Returns what is allowed, and may not be what is meant."""
    found = [one.what for one in cluster_of(config).warnings()]
    if any(team.slices is not None for team in config.teams):
        found.append(
            "teams share one queue for all slices yet: what is said of slices, borrow and lend is checked, and not kept"
        )
    return tuple(found)


def plan(desk: Desk, config: EnvironmentConfig) -> Plan:
    """Looks at all there is, and returns what would be done. Changes nothing. Raises ContainerError, BadInput."""
    off = services.off(desk.project, apis_for(config), desk.timing)
    permissions = [one for need in needs_of(config) for one in need.permissions]
    missing = services.lacking(desk.project, permissions, desk.timing)
    record = config.record.split("/")[2] if isinstance(desk.ledger, NoRecord) else ""
    found = [one for one in wanted(config, desk.project) if one.kind in KIND_OF]
    unknown = _unreachable(off)
    steps = [Step("make", one) if one.kind in unknown else desk.step(config, one) for one in found]
    if "container.googleapis.com" in off:
        return Plan(record, off, missing, steps, [f"make cluster {config.cluster.name}"], {})
    office, name = desk.office(config), config.cluster.name
    planned = clusters.preview(office, name, cluster_of(config, desk.project))
    return Plan(record, off, missing, steps, [str(one) for one in planned.steps], _differs(desk, config))


def up(desk: Desk, config: EnvironmentConfig) -> None:
    """Makes an environment as it is wanted, or makes it so. Called again it goes on where it ended.

    The record must be there, see `bootstrap`. What was made stays, whatever goes wrong. Raises BadInput, Taken,
    ContainerError, NotWhole, NotReady.
    """
    name = kinds.lease_name(desk.project, config.called)
    holding = claim(desk.ledger, desk.inventories, name, None, say=desk.say)
    holding.stand(None)
    note = "not whole: do the same again"
    try:
        with holding.renewing():
            settle(desk, holding)
            _make_all(desk, config, holding)
            holding.describe(_shape(config), None)
            holding.live()
        note = ""
    finally:
        if holding.lease.owner is not None:
            holding.detach(None, note)


def down(
    desk: Desk,
    config: EnvironmentConfig,
    *,
    bucket: bool = False,
    agree: Callable[[Sequence[str]], bool] = lambda going_on: True,
) -> Sequence[ResourceRef]:
    """Gives an environment back, and looks that it is gone; returns what went.

    The bucket stays unless it is asked for. `agree` is shown what goes on in the cluster, if anything does. Raises
    BadInput where there is none, or where the bucket is not empty and may not be emptied; Declined, Taken, Leaked.
    """
    name, cluster = kinds.lease_name(desk.project, config.called), config.cluster.name
    lease, made = (latest(desk.ledger, one) for one in (name, cluster_lease(desk.project, cluster)))
    left = bucket and _own_bucket(desk, config)
    if all(one is None or one.state is State.GONE for one in (lease, made)) and not left:
        raise BadInput(
            f"nothing of environment {config.called} is there: its record is {desk.ledger.uri}",
            fix="name the file, project and record that it was made with",
        )
    if bucket:
        _refuse_full(desk, config)
    gone: list[ResourceRef] = []
    holding = claim(desk.ledger, desk.inventories, name, None, say=desk.say)
    with holding.renewing():
        settle(desk, holding)
        if made is not None and made.state is not State.GONE:
            desk.say(f"give back cluster {cluster}")
            gone += clusters.delete(desk.office(config), cluster, agree=agree)
        _about_bucket(desk, config, holding, take=bucket)
        holding.fall()
        desk.say("give back the rest")
        done = holding.release("env down")
    if done.lease.state is not State.GONE:
        raise Leaked(f"not proven gone: {done.lease.note}; do the same again")
    return [*gone, *done.deleted]


def bootstrap(desk: Desk, config: EnvironmentConfig) -> bool:
    """Makes the bucket in which the record is, where it is missing; returns whether it did. It is never taken away."""
    bucket = config.record.split("/")[2]
    sort = Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing))
    if sort.look(desk.project, bucket) is not None:
        return False
    if services.off(desk.project, ["storage.googleapis.com"], desk.timing):
        services.turn_on(desk.project, ["storage.googleapis.com"], desk.timing)
    desk.say(f"bootstrap: make bucket {bucket} for the record, which stays when the environment goes")
    fields = {
        "location": config.region.upper(),
        "versioning": {"enabled": True},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
    }
    sort.make(desk.project, bucket, fields, {"managed-by": "slicebench"})
    return True


def _make_all(desk: Desk, config: EnvironmentConfig, holding: Holding) -> None:
    off = services.off(desk.project, apis_for(config), desk.timing)
    permissions = [one for need in needs_of(config) for one in need.permissions]
    if missing := services.lacking(desk.project, permissions, desk.timing):
        raise BadInput(Plan("", off, missing, (), (), {}).problems)
    if off:
        desk.say(f"turn on {', '.join(off)}")
        services.turn_on(desk.project, off, desk.timing)
    office = desk.office(config)
    clusters.check_place(office, cluster_of(config, desk.project))
    if office.inside is not None:  # what is put into the cluster may have to be fetched from far away
        office.inside.ready(cluster_of(config, desk.project))
    found = [one for one in wanted(config, desk.project) if one.kind in KIND_OF]
    steps = [desk.step(config, one) for one in found]
    if refused := [step for step in steps if step.do == "refuse"]:
        raise BadInput(Plan("", (), (), refused, (), {}).problems)
    for step in (one for one in steps if one.wanted.kind not in _IN_CLUSTER):
        carry_out(desk, holding, step)
    clusters.create(desk.office(config), config.cluster.name, cluster_of(config, desk.project), partly=True)
    for step in (one for one in steps if one.wanted.kind in _IN_CLUSTER):
        carry_out(desk, holding, step)
    for what, fields in _differs(desk, config).items():
        for field in fields:
            desk.say(f"warning: {what} stays as it is: {field} cannot be changed on what is there")


def _differs(desk: Desk, config: EnvironmentConfig) -> Mapping[str, Sequence[Difference]]:
    """Returns what of the cluster and its node pools is not as wanted, beside what `cluster create` would change."""
    cluster = cluster_of(config, desk.project)
    there = document(desk.project, cluster.location, config.cluster.name, desk.timing)
    if there is None:
        return {}
    pools = {str(one["name"]): one for one in there.get("node_pools", ())}
    found: dict[str, Sequence[Difference]] = {}
    for one in wanted(config, desk.project):
        seen = there if one.kind == "cluster" else pools.get(one.name) if one.kind == "node pool" else None
        if seen is not None and (
            unlike := [each for each in differences(one, seen, ()) if not _enough(each)]
        ):
            found[str(one)] = unlike
    return found


def _enough(one: Difference) -> bool:
    """Whether a difference is none: room for more machines than are needed, or the version that a shorter one meant."""
    if one.path.endswith("total_max_node_count"):
        return isinstance(one.there, int) and one.there >= int(one.wanted)
    return one.path == "initial_cluster_version" and str(one.there).startswith(str(one.wanted))


def _unreachable(off: Sequence[str]) -> frozenset[str]:
    """Returns the kinds that cannot be looked at, as their APIs are off: then nothing of them can be there."""
    by_api = {
        "compute.googleapis.com": ("network", "subnetwork", "router", "firewall"),
        "iam.googleapis.com": ("service account", "account role"),
        "cloudresourcemanager.googleapis.com": ("role",),
        "storage.googleapis.com": ("bucket", "bucket role"),
        "artifactregistry.googleapis.com": ("repository",),
        "aiplatform.googleapis.com": ("tensorboard",),
    }
    return frozenset(kind for api in off for kind in by_api.get(api, ()))


def _own_bucket(desk: Desk, config: EnvironmentConfig) -> bool:
    bucket = next(one for one in wanted(config, desk.project) if one.kind == "bucket")
    return desk.step(config, bucket).do in ("keep", "change")


def _refuse_full(desk: Desk, config: EnvironmentConfig) -> None:
    buckets = Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing))
    try:
        full = not config.bucket.force_destroy and not buckets.is_empty(config.bucket.name)
    except NotFound:
        return
    if full:
        raise BadInput(
            f"bucket {config.bucket.name} is not empty, so nothing was given back",
            fix="bucket: {force_destroy: true} lets it go with all that is in it; or leave --bucket out, and it stays",
        )


def _about_bucket(desk: Desk, config: EnvironmentConfig, holding: Holding, *, take: bool) -> None:
    """Lets the bucket be no longer the lease's, so that it stays; or sees to it that it goes."""
    ref = next((one for one in holding.lease.resources if one.kind == kinds.BUCKET and one.ours), None)
    if not take:
        if ref is not None:
            desk.say(f"bucket {ref.name} stays: --bucket gives it back as well")
            holding.forget(ref)
        return
    if ref is None and _own_bucket(desk, config):  # it stayed when the environment went before
        bucket = Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing))
        there = bucket.look(desk.project, config.bucket.name)
        if there is not None:
            ref = holding.create(kinds.BUCKET, desk.project, config.bucket.name, lambda: there.uid)
    if ref is not None and config.bucket.force_destroy:
        Buckets(rest=Rest("storage.googleapis.com", timing=desk.timing)).empty(ref.name)


def _shape(config: EnvironmentConfig) -> Mapping[str, str]:
    """Returns what is made, for people, and the file whole."""
    told = {"made_by": "env up", "cluster": config.cluster.name, "tpu_pools": str(config.tpu_pools)}
    return {**told, "config": json.dumps(config.model_dump(mode="json", exclude_defaults=True))}
