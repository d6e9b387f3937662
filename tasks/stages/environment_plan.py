"""What an environment is to be, and how what is there differs from it: looked at all over, and nothing changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from runtime.contract.errors import BadInput, Problem
from tasks.cloud import services
from tasks.cloud.labels import read_labels
from tasks.cloud.things import Whose
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_risks import risks
from tasks.config.environment_roles import Need, apis_for, needs_of, permissions_of
from tasks.leases.clusters import is_unmarked, lease_name
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.stages import clusters
from tasks.stages.cluster_standing import Office, seen
from tasks.stages.environment_asked import asked
from tasks.stages.environment_beside import beside
from tasks.stages.environment_changes import differs, set_by_others
from tasks.stages.environment_desk import Desk, NoRecord, project_of
from tasks.stages.environment_inside import EnvironmentInside, put_in
from tasks.stages.environment_kept import keeps_network
from tasks.stages.environment_moved import moved
from tasks.stages.environment_quota import short_of_quota
from tasks.stages.environment_record import another_cluster
from tasks.stages.environment_shared import missing_in_host
from tasks.stages.environment_unnamed import Unnamed, unnamed
from tasks.stages.environment_way_out import nat_of_others, no_way_out, one_too_many
from tasks.targets.cluster_find import Others, find
from tasks.targets.cluster_plan import Step as ClusterStep
from tasks.targets.cluster_price import price_of
from tasks.targets.cluster_soon import as_planned
from tasks.targets.environment_diff import Difference, Step
from tasks.targets.environment_unasked import unasked
from tasks.targets.environment_wanted import Wanted, namespaces, wanted

_FIELDS = {
    r"--cpu-machine-type (?=\S)": "cpu_pool.machine_type: ",
    r"with --cpu-machine-type": "in cpu_pool.machine_type",
    r"--zonal": "cluster.regional: false",
    r"--version ": "cluster.version: ",
    r"--channel ": "cluster.channel: ",
}
"""What flags of `cluster create` are called in an environment's file."""
_KEEP_DESCRIPTIONS = ("network", "subnetwork")
"""Kinds that say whose they are in their description, which their API does not change."""
_HOLD_DATA = ("bucket", "repository")
ASKS = "cloudresourcemanager.googleapis.com"
"""The API that says what the caller may do; where it is off, that is known only once it is on."""


@dataclass(frozen=True)
class Preview:
    """An environment as it is to be. `price_per_hour` is of all its TPUs, in US dollars; None: not known."""

    name: str
    project: str
    record: str
    wanted: Sequence[Wanted]
    needs: Sequence[Need]
    hosts_per_pool: int
    chips: int
    price_per_hour: float | None
    warnings: Sequence[str] = ()
    comes_and_goes: bool = False
    """Whether its TPUs are there, and cost, only while pods ask for them."""


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
    unnamed: Sequence[Unnamed] = ()
    """What was made for it and the file does not name any more."""
    beside: Sequence[str] = ()
    """What others gave or made, and people should know of: it stays."""
    short: str = ""
    """Which quota has too little left for what is to be made."""
    against: Sequence[Problem] = ()
    """What there is that is another's, or not known any more as made for this, and stands against it."""
    needs: Sequence[Need] = ()
    """What whoever makes it must be allowed to do, of which `lacking` is missing."""
    warnings: Sequence[str] = ()
    """What is allowed, and will not do what people may think; known by looking alone."""

    @property
    def empty(self) -> bool:
        """Whether all is as it is wanted."""
        idle = all(step.do in ("keep", "use") for step in self.steps)
        goes = any(one.goes for one in self.unnamed)
        return idle and not (
            self.bootstrap or self.off or self.cluster or self.differs or goes or self.against
        )

    @property
    def problems(self) -> list[Problem]:
        """What stops it before anything is made."""
        found = [Problem("error", None, one.refused) for one in self.steps if one.do == "refuse"]
        if self.lacking:
            found.append(may_not(self.lacking, self.needs))
        if self.short:
            found.append(Problem("error", None, self.short))
        return [*found, *self.against]


def may_not(lacking: Sequence[str], needs: Sequence[Need]) -> Problem:
    """Returns what is said of permissions that are missing: which of the roles that are needed have them."""
    left = {one.partition(" in ")[0] for one in lacking}
    roles: list[str] = []
    while left:
        need = max(needs, key=lambda one: (len(left & set(one.permissions)), -len(one.permissions)))
        roles.append(need.role)
        left -= set(need.permissions)
    told = dict.fromkeys(need.role for need in needs if need.role in roles)
    fix = f"grant {', '.join(told)}: docs/environment.md says why each is needed"
    return Problem("error", None, f"you may not do all that is needed: {', '.join(lacking)}", fix=fix)


def preview(
    config: EnvironmentConfig, project: str | None = None, environ: Mapping[str, str] = os.environ
) -> Preview:
    """Returns what an environment would be. Asks nobody. Raises BadInput where no project is named."""
    chosen = project_of(config, project, environ)
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
        comes_and_goes=config.tpu.autoscaling or config.tpu.capacity == "flex_start",
        warnings=warnings(config),
    )


def warnings(config: EnvironmentConfig, *, looks: bool = False) -> tuple[str, ...]:
    """Returns what is allowed, and may not be what is meant. `looks`: without that of which `looked_at` knows more."""
    found = [one.what for one in cluster_of(config).warnings()]
    found += risks(config.network, config.cluster, config.accounts, has_nat=config.has_nat, looks=looks)
    own = sum(team.slices or 0 for team in config.teams)
    if config.tpu_pools and own > config.tpu_pools:
        found.append(
            f"teams: their own slices are {own} in all, and tpu_pools: {config.tpu_pools} are there: who is named "
            "first has its own first"
        )
    if any(team.slices is not None for team in config.teams) and not config.queueing.install:
        found.append(
            "teams: without queueing.install their slices are nobody's to keep: you divide the quota yourself"
        )
    return tuple(found)


def plan(desk: Desk, config: EnvironmentConfig) -> Plan:
    """Looks at all there is, and returns what would be done. Changes nothing. Raises ContainerError, BadInput."""
    return replace(_planned(desk, config), needs=needs_of(config))


def _planned(desk: Desk, config: EnvironmentConfig) -> Plan:
    off = services.off(desk.project, apis_for(config), desk.timing)
    missing = lacking(desk, config) if ASKS not in off else []
    record = config.record.split("/")[2] if isinstance(desk.ledger, NoRecord) else ""
    found = asked(desk, config)
    unknown = _unreachable(off)
    steps = [Step("make", one) if one.kind in unknown else desk.step(config, one) for one in found]
    beyond = unnamed(desk, config)
    others = [
        *beside(desk, config, unknown, [one.ref for one in beyond]),
        *_set_by_others(steps, desk.whose(config)),
    ]
    others += [
        f"{one} is in the network, which cannot go before it: left" for one in keeps_network(desk, config)
    ]
    if router := nat_of_others(desk, config):
        others.append(
            f"router {router} lets nodes of network {config.network.name} out: no other one is made"
        )
    warned = looked_at(desk, config)
    if "container.googleapis.com" in off:
        todo = [f"make cluster {config.cluster.name}"]
        return Plan(record, off, missing, steps, todo, {}, beyond, others, warnings=warned)
    office, name = desk.office(config, soon=True), config.cluster.name
    planned, taken = _cluster_steps(office, config, desk)
    others_way = [*(taken or moved(desk, config)), *one_too_many(desk, config)]
    against = [*another_cluster(desk.ledger, config, desk.project), *others_way]
    todo = [str(one) for one in planned]
    short = "" if "compute.googleapis.com" in off else short_of_quota(desk, config)
    if any(
        one.do in ("make cluster", "replace cluster") for one in planned
    ):  # what is there of it, if anything, goes
        if config.queueing.install:
            todo.append(f"inside {name}: {put_in(namespaces(config))}")
        return Plan(record, off, missing, steps, todo, {}, beyond, others, short, against, warnings=warned)
    inside, of_others = _inside(office, config, desk, planned)
    todo += [f"inside {name}: {line}" for line in inside]
    others += [f"inside {name}: {line}" for line in of_others]
    others += [] if against else set_by_others(desk, config)
    anew = {f"node pool {one.name}" for one in planned if one.do in ("replace pool", "remove pool")}
    unlike = {what: fields for what, fields in differs(desk, config).items() if what not in anew}
    return Plan(record, off, missing, steps, todo, unlike, beyond, others, short, against, warnings=warned)


def looked_at(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns what is allowed and may not be meant, of what is known by looking alone. Raises ContainerError."""
    return [*(one for one in (no_way_out(desk, config),) if one), *missing_in_host(desk, config)]


def _set_by_others(steps: Sequence[Step], whose: Whose) -> Iterator[str]:
    """Yields what was set on what is there beside what is asked for: of others' things, what may delete or bar."""
    for step in steps:
        if step.there is None:
            continue
        one, ours = step.wanted, step.do in ("keep", "change")
        if ours or one.kind in _HOLD_DATA:
            yield from unasked(one, step.there.fields)
        if ours and one.kind in _KEEP_DESCRIPTIONS and not whose.made(step.there.labels):
            now = step.there.fields.get("description") or ""
            yield f"{one} does not say any more whose it is ({now!r}), and its API changes that not: the record knows"


def lost_record(desk: Desk, config: EnvironmentConfig) -> Problem | None:
    """Returns that a cluster of this name was made as this environment's is, and the record knows nothing of it."""
    name = lease_name(desk.project, config.cluster.name)
    there = find(desk.container, config.cluster.name, cluster_of(config, desk.project).location)
    labelled, lease = read_labels(there.labels) if there else None, latest(desk.ledger, name)
    if labelled is None or labelled.lease_name != name:
        return None
    if labelled.ledger_id == desk.ledger.id and lease is not None and lease.state is not State.GONE:
        return None
    return Problem(
        "error",
        None,
        f"cluster {config.cluster.name} is there, made by {labelled.owner} under lease {labelled.lease_id}, and the "
        f"record {desk.ledger.uri} knows nothing of it: another one does, or it has lost what it had",
        fix="name the record, file and project that it was made with, or bring the record's objects back (its bucket "
        "keeps older versions, where `up` made it): until then all that was made stays, and costs",
    )


def others_in(office: Office, config: EnvironmentConfig, desk: Desk) -> Sequence[Problem]:
    """Returns what of the cluster that is there is not this environment's to work on."""
    try:
        seen(office, config.cluster.name, cluster_of(config, desk.project))
    except Others as error:
        return _with_lost(desk, config, error)
    return ()


def _with_lost(desk: Desk, config: EnvironmentConfig, error: Others) -> Sequence[Problem]:
    lost = lost_record(desk, config)
    return error.problems if lost is None else [lost]


def _cluster_steps(
    office: Office, config: EnvironmentConfig, desk: Desk
) -> tuple[Sequence[ClusterStep], Sequence[Problem]]:
    """Returns what is to be done about the cluster, or what of it is another's: then nothing is done to anything."""
    with in_words_of_files():
        try:
            return clusters.preview(office, config.cluster.name, cluster_of(config, desk.project)).steps, ()
        except Others as error:
            return (), _with_lost(desk, config, error)


@contextmanager
def in_words_of_files() -> Iterator[None]:
    """Within, what is against a cluster is told with the fields of files in place of the flags of `cluster create`."""
    try:
        yield
    except BadInput as error:
        raise BadInput([_reworded(one) for one in error.problems]) from None


def _reworded(problem: Problem) -> Problem:
    fix = problem.fix
    for flag, field in _FIELDS.items():
        fix = re.sub(flag, field, fix)
    return replace(problem, fix=fix)


def lacking(
    desk: Desk, config: EnvironmentConfig, needed: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Returns what whoever asks may not do of what is needed, by project; None: of all. Raises ContainerError."""
    found: list[str] = []
    asked = permissions_of(config, desk.project) if needed is None else needed
    for project, permissions in asked.items():
        elsewhere = f" in {project}" if project != desk.project else ""
        missing = services.lacking(project, permissions, desk.timing)
        found += [f"{permission}{elsewhere}" for permission in missing]
    return found


def _inside(
    office: Office, config: EnvironmentConfig, desk: Desk, planned: Sequence[ClusterStep]
) -> tuple[list[str], list[str]]:
    """Returns what is to be done inside the cluster, where it is there, and slicebench's own; and what of it is
    others', and stays.
    """
    cluster = cluster_of(config, desk.project)
    there = find(office.container, config.cluster.name, cluster.location)
    if there is None or there.state == "ERROR" or not config.queueing.install:
        return [], []
    labelled = read_labels(there.labels)
    lease = latest(desk.ledger, lease_name(desk.project, config.cluster.name))
    ours = is_unmarked(lease, there) if labelled is None else labelled.ledger_id == desk.ledger.id
    if not ours or not isinstance(office.inside, EnvironmentInside):
        return [], []
    soon = as_planned(there, cluster, planned)
    return office.inside.differences(soon, cluster), office.inside.of_others(soon, cluster)


def of_others_inside(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns what is inside the cluster in place of what would be made, and stays as it is: it is others'."""
    cluster, inside = cluster_of(config, desk.project), desk.inside(config)
    there = find(desk.container, config.cluster.name, cluster.location)
    if there is None or not isinstance(inside, EnvironmentInside):
        return []
    return [f"inside {config.cluster.name}: {line}" for line in inside.of_others(there, cluster)]


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
