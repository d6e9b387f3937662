"""The cluster of a GKE target by name: what it is to be like, whether it can be had, and how it is got for a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.container import Container
from tasks.cloud.container_errors import PermissionDenied
from tasks.cloud.container_model import GOOD, Cluster
from tasks.cloud.google_place import choose_project, choose_zone
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import NAMESPACE
from tasks.cloud.labels import LEASE, read_labels
from tasks.config.cluster import ClusterConfig
from tasks.config.findings import checked
from tasks.config.gke_place import ClusterPlace
from tasks.config.gke_target import GkeTargetConfig
from tasks.leases.holding import Holding
from tasks.leases.queues import queue_of
from tasks.leases.shares import shared_by
from tasks.targets import kube_own_queue
from tasks.targets.cluster_check import against
from tasks.targets.cluster_find import find
from tasks.targets.cluster_fit import Need, short_of
from tasks.targets.cluster_requests import cluster_request, pool_name, pool_request
from tasks.targets.cluster_sharing import Ways, cluster_for
from tasks.targets.cluster_wanted import Wanted
from tasks.targets.cluster_words import create_words, resize_words

Say = Callable[[str], None]


def placed(config: GkeTargetConfig) -> GkeTargetConfig:
    """Returns the target with the project and location that its file leaves to the environment. Raises BadInput."""
    cluster = config.cluster
    if cluster is None:
        return config
    found = {
        "project": choose_project(cluster.project).value,
        "location": cluster.location or choose_zone(how="write location: below cluster: in the target").value,
    }
    return config.model_copy(update={"cluster": cluster.model_copy(update=found)})


def place_of(config: GkeTargetConfig) -> ClusterPlace:
    """Returns the cluster of a target that names one."""
    assert config.cluster is not None
    return config.cluster


def need_of(config: GkeTargetConfig) -> Need:
    """Returns what the cluster must have for the target's pods."""
    place, shape = place_of(config), config.shape
    return Need(shape, config.slices, config.slices * shape.hosts, place.capacity, place.reservations)


def made_as(config: GkeTargetConfig) -> ClusterConfig:
    """Returns how the cluster is made. Raises BadInput, with every reason, where it cannot be."""
    place, shape = place_of(config), config.shape
    location, zone = place.location or "", place.machines_zone
    if zone is None:
        what = (
            f"{location} is a region, and does not say where machines of cluster {place.name} are to be made"
        )
        raise BadInput(what, fix=f"add zone: {location}-a, or another one, below cluster:")
    if shape.kind == "cpu" and config.slices > 1 and config.exclusive_label is not None:
        what = f"machines of {config.type} are made in one node pool, and each of {config.slices} slices wants its own"
        raise BadInput(what, fix="write exclusive_topology: null, or slices: 1 with more hosts")
    if config.gpu_networks:
        what = f"cluster {place.name}, when it is made, has none of the networks that gpu_networks names"
        raise BadInput(
            what, fix="write gpu_networks: [] to do without, or name a cluster that is there: create: never"
        )
    asked: dict[str, Any] = {
        "regional": zone != location,
        **place.make_fields,
        **({"gpu_networks": "none"} if config.gpu_networks == () else {}),
        "zone": zone,
        "type": config.type,
        "topology": config.topology,
        "capacity": place.capacity_made,
        "reservations": place.reservations,
        **({"slices": config.slices} if shape.kind == "tpu" else {"nodes": config.slices * shape.hosts}),
    }
    given = {key: value for key, value in asked.items() if value is not None}
    about = f"cluster {place.name} cannot be made as the target says"
    return checked(ClusterConfig, given, about=about, fix="create: never")


def wanted(config: GkeTargetConfig) -> Wanted:
    """Returns the cluster that a run wants; without a way to make it where that is forbidden or cannot be."""
    place = place_of(config)
    made: ClusterConfig | None = None
    why_not: BadInput | None = None
    if place.create == "if_missing":
        try:
            made = made_as(config)
        except BadInput as error:  # of interest where it has to be made
            why_not = error
    return Wanted(
        place.name, made, place.create == "if_missing", place.location or "", need_of(config), why_not
    )


def get(
    config: GkeTargetConfig,
    lease: Holding,
    say: Say,
    poll_s: float,
    *,
    ready: Callable[[Cluster, Holding | None], None],
    apart: Callable[[Cluster], bool],
) -> Cluster:
    """Returns the cluster, adopted or made through the lease. Raises as `cluster_for`, and BadInput."""
    place = place_of(config)
    limit_s = config.limits.provisioning_s
    ways = Ways(say, poll_s, wait_s=limit_s or 86400.0, limit_s=limit_s, ready=ready, apart=apart)
    return cluster_for(lease, Container(place.project or ""), wanted(config), ways)


def fill(config: GkeTargetConfig, there: Cluster, api: Kubernetes, say: Say) -> None:
    """Puts JobSet, Kueue, the queue and the namespace into a cluster that was made; again it repairs them."""
    from tasks.targets.kube_install import set_up
    from tasks.targets.kube_room import held_in

    if api.find(NAMESPACE, config.namespace) is None:
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": config.namespace}})
    made = made_as(config)
    set_up(api, held_in(there, made), made, say)


def adds_apart(config: GkeTargetConfig, there: Cluster, api: Callable[[], Kubernetes]) -> bool:
    """Whether a run would add machines of its own, with a queue for them, to a cluster that others made."""
    if read_labels(there.labels) is not None or there.autoprovisions or place_of(config).create == "never":
        return False
    theirs = [pool for pool in there.pools if read_labels(pool.labels) is None]
    return bool(short_of(theirs, need_of(config)).count) and kube_own_queue.is_wanted(api(), config.queue)


def is_short(config: GkeTargetConfig, there: Cluster) -> bool:
    """Whether a cluster has too few slices of the type, so that they are made in it for the run."""
    return bool(short_of(there.pools, need_of(config)).count) and not there.autoprovisions


def never_fits_what_is_made(
    config: GkeTargetConfig, there: Cluster | None, jobset: Mapping[str, Any], container: Container
) -> list[Problem]:
    """Returns why pods could not be on the machines that would be made for them; none where none would be."""
    from tasks.cloud.compute import Compute
    from tasks.targets.gke_machines import never_fits

    if place_of(config).create == "never" or (there is not None and not is_short(config, there)):
        return []
    compute = None if Compute.is_left_out() else Compute(container.project, timing=container.timing)
    return list(never_fits(made_as(config), jobset, compute))


def led_to_its_queue(config: GkeTargetConfig, run: Holding, api: Callable[[], Kubernetes]) -> GkeTargetConfig:
    """Returns the target with the queue of the machines that runs added, where the run has a hold on such."""
    for lease in (run.lease, *map(run.ledger.read, shared_by(run.lease))):
        queue = queue_of(lease)
        if lease is None or queue is None:
            continue
        if config.queue is None:  # it waits in none, and has to get onto the machines all the same
            return config.model_copy(update={"tolerations": (*config.tolerations, LEASE)})
        kube_own_queue.lead_to(api(), queue.name, lease.lease_id, run.ledger.id)
        return config.model_copy(update={"queue": queue.name})
    return config


def lacking_once_made(config: GkeTargetConfig) -> list[Problem]:
    """Returns what a cluster that is made would lack of what the target names. Fetches what it gets."""
    from tasks.targets.kube_install import fetched
    from tasks.targets.kube_queues import LOCAL_QUEUE_NAME, PRIORITIES

    place, queueing = place_of(config), made_as(config).queueing
    lacks: list[tuple[str, str]] = []
    if queueing.install and config.queue not in (None, LOCAL_QUEUE_NAME):
        lacks.append((f"queue {config.queue}", f"its queue is {LOCAL_QUEUE_NAME}: leave queue: out"))
    if queueing.install and config.priority is not None and config.priority not in PRIORITIES:
        lacks.append((f"priority class {config.priority}", f"there will be {', '.join(PRIORITIES)}"))
    if config.service_account is not None:
        make = f"{create_words(config)}, then the account in it; or leave it out"
        lacks.append((f"service account {config.service_account}", make))
    told = f"cluster {place.name} is missing, and one that is made has no"
    problems = [Problem("error", None, f"{told} {what}", fix=fix) for what, fix in lacks]
    try:
        fetched(queueing)
    except BadInput as error:
        problems += error.problems
    except InfrastructureError as error:
        what = f"what goes into cluster {place.name} cannot be had: {error}"
        problems.append(Problem("error", None, what, unanswered=True))
    return problems


def look(config: GkeTargetConfig, container: Container) -> tuple[Cluster | None, list[Problem]]:
    """Returns the cluster as it stands, and what is against a run on it. Changes nothing."""
    place = place_of(config)
    try:
        there = find(container, place.name, place.location or "")
        problems = list(_against(config, container, there))
    except BadInput as error:
        return None, list(error.problems)
    except PermissionDenied as error:
        fix = "have somebody grant roles/container.developer, to make clusters roles/container.admin"
        return None, [Problem("error", None, str(error), fix=fix)]
    except InfrastructureError as error:
        return None, [Problem("error", None, f"GKE cannot be asked: {error}", unanswered=True)]
    return there, problems


def _against(config: GkeTargetConfig, container: Container, there: Cluster | None) -> Iterator[Problem]:
    place = place_of(config)
    if there is None:
        if place.create == "never":
            what = f"there is no cluster {place.name} in {container.project}, and the run may not make it"
            make = create_words(config)
            fix = f"{make}, or create: if_missing in the target" if make else "name one that is there"
            yield Problem("error", None, what, fix=fix)
            return
        made = made_as(config)
        yield from against(container, made)  # raises where there is no such place, or we may not look at it
        _try_requests(config, made, container.project)
        yield from made.warnings()
        return
    where = f"cluster {there.name} in {there.location}"
    if there.state == "STOPPING" and read_labels(there.labels) is not None and place.create == "if_missing":
        yield Problem("warning", None, f"{where} is just being deleted: the run waits, and makes it again")
        return
    if there.state not in (*GOOD, "PROVISIONING", "DEGRADED"):
        told = f"{where} is {there.state}{f': {there.why}' if there.why else ''}"
        ours = there.state == "ERROR" and read_labels(there.labels) is not None
        fix = f"slicebench cluster delete {there.name}" if ours else "name another cluster"
        yield Problem("error", None, told, fix=fix)
        return
    if there.workload_identity and config.uses_host_network:
        what = f"{where} has Workload Identity, and pods on the networks of their hosts act as the nodes' account"
        yield Problem(
            "warning",
            None,
            what,
            fix="name a service_account, or write host_network: false, where that may less",
        )
    lacking = short_of(there.pools, need_of(config))
    if not lacking.count or there.autoprovisions or there.state == "PROVISIONING":
        return
    told = f"{where} {lacking.told}"
    if place.create == "never":
        fix = f"{resize_words(config, there.name)}, create: if_missing in the target, or another type"
        yield Problem("error", None, told, "pods would wait for nodes that nobody makes", fix)
        return
    made = made_as(config)
    _try_requests(config, made, container.project)
    yield from against(container, made)
    what = f"{told}: what is missing by then is made for the run, and goes with the last run that uses it"
    yield Problem("warning", None, what)


def _try_requests(config: GkeTargetConfig, made: ClusterConfig, project: str) -> None:
    """Builds what would be asked for: what the API cannot read is refused before anything is made."""
    labels: Mapping[str, str] = {}
    cluster_request(place_of(config).name, made, project, labels)
    if made.shape is not None:
        pool_request(pool_name(0), made, made.shape, labels)
