"""What an environment has inside its cluster: namespaces, the Kubernetes account of workloads, teams' queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container_model import Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    JOB_SET,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    SERVICE_ACCOUNT,
    Kind,
    Object,
)
from tasks.cloud.timing import Timing
from tasks.config.cluster import ClusterConfig
from tasks.config.environment import EnvironmentConfig
from tasks.stages.cluster_inside import Inside
from tasks.targets.cluster_soon import as_planned
from tasks.targets.environment_wanted import email, namespaces
from tasks.targets.kube_differs import Change, called, differing, of_others
from tasks.targets.kube_install import USUAL, Waits, controllers_unlike, flavors_of, set_up
from tasks.targets.kube_objects import name
from tasks.targets.kube_queue_up import (
    apply,
    enter,
    entrances_beyond,
    objects_of,
    ours,
    take_away_entrances,
    take_away_teams,
    take_out,
)
from tasks.targets.kube_queues import LOCAL_QUEUE_NAME, MANAGED, priority_classes
from tasks.targets.kube_room import held_in
from tasks.targets.kube_teams import TEAM, Share, Teams, queue_for, queue_of
from tasks.targets.kube_unseen import without_numbers

SOON = Timing(try_s=8.0, total_s=12.0)
"""For who only wants to know whether something can be had."""
_PARTS = {"JobSet": (JOB_SET,), "Kueue": (CLUSTER_QUEUE, RESOURCE_FLAVOR, LOCAL_QUEUE)}
"""The kinds of each that are looked at: whoever put it in may have been ended after the first of them."""
ACTS_AS = "iam.gke.io/gcp-service-account"
"""The annotation by which Workload Identity knows as whom a Kubernetes account acts."""


@dataclass(frozen=True)
class EnvironmentInside(Inside):
    """`spaces` are the namespaces of workloads with the ClusterQueue of each, `account` their Kubernetes account, which
    acts as `whom`.
    """

    spaces: tuple[tuple[str, str], ...] = ()
    account: str = ""
    whom: str = ""
    teams: Teams = field(default_factory=Teams)
    did: list[Change] = field(default_factory=list, compare=False)
    """What `set_up` did."""
    no_way: ClassVar[str] = (
        "where there is no way to it, queueing.jobset.manifests and queueing.kueue.manifests name files in its place, "
        "and queueing.install: false leaves both out"
    )

    def set_up(self, cluster: Cluster, config: ClusterConfig) -> None:
        """See Inside. Namespaces come first, for the queues are in them."""
        api = Kubernetes(access_of(cluster, self.namespace))
        steps = list(self._differences(api, cluster, config))
        lacking = _lacking(api) if config.queueing.install else ()
        for step in steps:
            self.say(f"inside {cluster.name}: {step}")
        for kind, manifest in self._spaces():
            apply(api, manifest, kind, self.say)
        if not config.queueing.install:
            self.did.extend(steps)
            return
        held = held_in(as_planned(cluster, config), config)
        set_up(api, held, config, self.say, patience=self.waits, teams=self.teams)
        for _, manifest in self._entrances():
            enter(api, manifest, self.say)
        queues = [*self._queues(api, cluster, config), *self._entrances()]
        for kind, manifest in queues:
            take_out(api, kind, manifest)
        take_away_entrances(api, self._named(), self.say)
        take_away_teams(api, {queue_of(one.team) for one in self.teams.shares}, self.say)
        if lacking:  # what came with them had no kinds that could be asked for before
            came = [*lacking, *(called(kind, one) for kind, one in queues if "Kueue" in lacking)]
            steps = [*steps[:-1], *(Change("make", one) for one in came)]
        self.did.extend(steps)

    def differences(self, cluster: Cluster, config: ClusterConfig) -> list[str]:
        """Returns what of all this is not as it is wanted, a line each; says why where nobody can look."""
        try:
            api = Kubernetes(access_of(cluster, self.namespace), timing=SOON)
            return [str(one) for one in self._differences(api, cluster, config)]
        except (BadInput, InfrastructureError) as error:
            self.say(f"warning: what is inside cluster {cluster.name} cannot be seen: {error}")
            return []

    def _differences(self, api: Kubernetes, cluster: Cluster, config: ClusterConfig) -> Iterator[Change]:
        yield from differing(api, self._spaces())
        if not config.queueing.install:
            return
        if lacking := _lacking(api):
            yield Change("change", put_in(self._named(), *lacking))
            return
        unlike = controllers_unlike(api, held_in(as_planned(cluster, config), config), config)
        yield from (Change("change", line) for line in unlike)
        yield from differing(api, [*self._queues(api, cluster, config), *self._entrances()])
        keep = {queue_of(one.team) for one in self.teams.shares}
        for queue in api.list(CLUSTER_QUEUE, labels=TEAM).items:
            if ours(queue) and name(queue) not in keep:
                yield Change("take away", f"ClusterQueue {name(queue)}")
        for space in entrances_beyond(api, self._named()):
            yield Change("take away", f"LocalQueue {LOCAL_QUEUE_NAME} in {space}")

    def of_others(self, cluster: Cluster, config: ClusterConfig) -> list[str]:
        """Returns which of its queues are not slicebench's, and stay as they are, a line each; none where nobody can
        look.
        """
        if not config.queueing.install:
            return []
        try:
            api = Kubernetes(access_of(cluster, self.namespace), timing=SOON)
            if not api.serves(CLUSTER_QUEUE):
                return []
            return list(of_others(api, self._queues(api, cluster, config)))
        except (BadInput, InfrastructureError):  # `differences` says so
            return []

    def _queues(self, api: Kubernetes, cluster: Cluster, config: ClusterConfig) -> list[tuple[Kind, Object]]:
        """Returns the priorities, flavors and ClusterQueues, without numbers of what nobody has seen yet."""
        wanted = flavors_of(api, held_in(as_planned(cluster, config), config), config)
        queues = [
            (kind, without_numbers(one, wanted) if kind is CLUSTER_QUEUE else one)
            for kind, one in objects_of(wanted, self.namespace, self.teams)
        ]
        return [*priority_classes(), *queues]

    def _named(self) -> set[str]:
        return {space for space, _ in self.spaces}

    def _spaces(self) -> Sequence[tuple[Kind, Object]]:
        made: list[tuple[Kind, Object]] = []
        for space, _ in self.spaces:
            made.append((NAMESPACE, {"metadata": {"name": space, "labels": dict(MANAGED)}}))
            meta = {"namespace": space, "labels": dict(MANAGED), "name": self.account}
            made.append((SERVICE_ACCOUNT, {"metadata": {**meta, "annotations": {ACTS_AS: self.whom}}}))
        return made

    def _entrances(self) -> Sequence[tuple[Kind, Object]]:
        return [
            (
                LOCAL_QUEUE,
                {
                    "metadata": {"namespace": space, "name": LOCAL_QUEUE_NAME, "labels": dict(MANAGED)},
                    "spec": {"clusterQueue": queue},
                },
            )
            for space, queue in self.spaces
        ]


def _lacking(api: Kubernetes) -> list[str]:
    """Returns which controllers are not there, or not whole."""
    return [title for title, kinds in _PARTS.items() if not all(map(api.serves, kinds))]


def put_in(spaces: Collection[str], *controllers: str) -> str:
    """Returns that controllers (both, if none is said) are put into a cluster, with the queues of these namespaces."""
    return f"put {' and '.join(controllers or ('JobSet', 'Kueue'))} in, and queues for {', '.join(sorted(spaces))}"


def teams_of(config: EnvironmentConfig) -> Teams:
    """Returns what each team has of its own."""
    own = [one for one in config.teams if one.slices is not None]
    shares = [Share(one.name, one.slices or 0, one.borrow, one.lend) for one in own]
    return Teams(shares, config.shape.chips)


def inside_of(
    config: EnvironmentConfig, project: str, say: Callable[[str], None], waits: Waits = USUAL
) -> EnvironmentInside:
    """Returns what is put into the cluster of an environment."""
    workloads, teams = config.accounts.workloads, teams_of(config)
    names = [one.name for one in config.teams] or [""]
    spaces = tuple(
        (space, queue_for(team, teams)) for space, team in zip(namespaces(config), names, strict=True)
    )
    return EnvironmentInside(
        say,
        waits,
        spaces[0][0],
        spaces=spaces,
        account=workloads.kubernetes,
        whom=email(workloads.name, project),
        teams=teams,
    )
