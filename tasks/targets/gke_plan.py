"""What a run takes of a Kubernetes cluster: a JobSet, the cluster where it is made, workers and chips from the type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, Problem
from runtime.contract.fit import Backend, devices_wanted, fit
from runtime.contract.generator import Requirement
from tasks.cloud.google_place import region_of
from tasks.cloud.prices import load_prices
from tasks.cloud.resource_names import name_of
from tasks.config.accelerators import Accelerator
from tasks.config.duration import in_words
from tasks.config.envfile import refused_in_pods
from tasks.config.gke_place import ClusterPlace
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar_in_pods import FOR_NOBODY_ELSE, exposed
from tasks.config.spec import RunSpec
from tasks.leases.clusters import lease_name
from tasks.leases.lease import lease_id
from tasks.leases.resource import CLUSTER, JOBSET, POLICY, POOL, ResourceRef
from tasks.targets.cluster_requests import pool_name
from tasks.targets.gke_waiting import ALONE_S
from tasks.targets.kube_jobset import groups
from tasks.targets.kube_names import Group, jobset_name, name_problem
from tasks.targets.kube_policy import restarting_codes
from tasks.targets.kube_template import SLICE_JOB
from tasks.targets.local_plan import bytes_of
from tasks.targets.types import Plan, Restarts

_GOES_WITHIN_S = 600
"""For the end of what nobody waits for: pods, their last words, and the cluster's own look at the time."""

TRIAL_S = 900
"""For a pod that tries an image."""

SECRET = "secret"


def plan(spec: RunSpec, config: GkeTargetConfig, scope: str) -> Plan:
    """Returns the plan of a run on a cluster. Pure. `scope` is its place, see kubernetes_places.

    What is made is named after the first epoch of the run's lease. Raises BadInput when no point fits.
    """
    devices = _devices(spec, config)
    has: frozenset[Requirement] = frozenset({"pathways"} if config.pathways is not None else ())
    backend = Backend(config.platform, config.workers * devices, config.workers, config.slices, has)
    fitting = fit(spec.points, backend)
    if not fitting.points:
        raise BadInput(fitting.problems)
    if problems := list(_refused(spec, config)):
        raise BadInput(problems)
    return Plan(
        target=spec.target_name,
        resources=list(_resources(spec, config, scope)),
        workers=config.workers,
        slices=config.slices,
        devices_per_worker=devices,
        platform=config.platform,
        price_per_hour=price_of(config),
        warnings=list(_warnings(config)),
        output=spec.output,
        bytes_per_save=max((bytes_of(point.checkpoint) for point in fitting.points), default=0),
        points=fitting.points,
        left_out=fitting.problems,
        keepable=(CLUSTER, POOL) if _makes_cluster(config) else (),
        locks=[("gke", scope)] if config.lock else (),
        lock_wait_s=spec.wait_for_lock_s,
        attempts=config.limits.attempts,
        restarts=Restarts(config.max_restarts, restarting_codes(config)),
        capacity=config.cluster.capacity_made if config.cluster and _makes_cluster(config) else "",
        left_s=left_s(config),
        left_alone_s=left_alone_s(config),
        machine=_machine(config),
    )


def _machine(config: GkeTargetConfig) -> Mapping[str, str]:
    """Returns what numbers depend on of the machines; of a context nobody says in which region it is."""
    shape, cluster = config.shape, config.cluster
    place = (cluster.machines_zone or cluster.location or "") if cluster else ""
    return {"target": "gke", "type": shape.name, "topology": shape.topology, "region": region_of(place)}


def left_s(config: GkeTargetConfig) -> float | None:
    """Returns for how long a workload that nobody waits for may need what was made: its turn, its time, its end."""
    limits = config.limits
    if config.wait or limits.workload_s is None:
        return None
    queue_s = (limits.queue_s or 0) if config.queue else 0
    starts = 1 if config.queue else 1 + config.max_restarts  # Kueue counts over all of them
    return queue_s + limits.workload_s * starts + limits.termination_grace_s + _GOES_WITHIN_S


def left_alone_s(config: GkeTargetConfig) -> float | None:
    """Returns the same where nobody else has quota of the machines, as where somebody follows; None: as long."""
    most_s, queue_s = left_s(config), config.limits.queue_s or 0
    if most_s is None or "queue_s" in config.limits.model_fields_set or not _makes_cluster(config):
        return None
    return most_s - queue_s + ALONE_S if config.queue else None


def workload_name(spec: RunSpec, config: GkeTargetConfig) -> str:
    """Returns the name of the JobSet: as the file says, else after the first epoch of the run's lease."""
    return config.workload_name or jobset_name(lease_id(spec.lease_name, 1), groups(config))


def trial_name(lease: str) -> str:
    """Returns the name of the JobSet whose one pod tries the image of a lease's run."""
    return jobset_name(lease, [Group(SLICE_JOB, 1, 1)], "smoke")


def price_of(config: GkeTargetConfig) -> float | None:
    """Returns what the slices that a run makes cost an hour, in US dollars; None: not known, 0: it makes none."""
    cluster = config.cluster
    if cluster is None or cluster.create == "never":
        return 0.0
    zone = cluster.machines_zone or f"{cluster.location or ''}-a"
    shape = config.shape
    spot = cluster.capacity_made == "spot"
    return load_prices().per_hour(shape.family, shape.chips * config.slices, zone, spot=spot)


def _devices(spec: RunSpec, config: GkeTargetConfig) -> int:
    """Returns the devices of each worker; on CPUs as many as were asked for, or as the suite's meshes need."""
    shape = config.shape
    if config.pathways is not None:
        return shape.hosts * shape.devices_per_host * config.slices
    if shape.devices_per_host and config.platform != "cpu":
        return shape.devices_per_host // config.containers_per_host
    if config.devices_per_worker != "auto":
        return config.devices_per_worker
    wanted = devices_wanted(spec.points)
    if wanted is None:
        return 1
    if wanted % config.workers:
        takes, workers = counted(wanted, "device"), counted(config.workers, "worker")
        raise BadInput(
            f"the suite's meshes take {takes}, which {workers} of {config.type} cannot share evenly",
            fix="take a type of other hosts or slices, or say devices_per_worker",
        )
    return wanted // config.workers


def _resources(spec: RunSpec, config: GkeTargetConfig, scope: str) -> Iterator[ResourceRef]:
    cluster = config.cluster
    if cluster is not None and _makes_cluster(config):
        at = f"{cluster.project}/{cluster.location}"
        yield ResourceRef(CLUSTER, at, cluster.name)
        if config.shape.placement == "workload_policy" and "placement_policy" not in cluster.make_fields:
            region = "-".join(
                (cluster.zone or cluster.location or "").split("-")[:2]
            )  # of a zone or a region
            of_cluster = lease_id(lease_name(cluster.project or "", cluster.name), 1)
            yield ResourceRef(
                POLICY, f"{cluster.project}/{region}", name_of(of_cluster, config.shape.topology)
            )
        ends = "the service, when it needs the spot capacity" if cluster.capacity_made == "spot" else "none"
        if most := cluster.make_fields.get("max_run"):
            ends = f"its machines go {most} after they came; the pool stays"
        for number in range(config.slices if config.shape.kind == "tpu" else 1):
            yield ResourceRef(POOL, f"{at}/{cluster.name}", pool_name(number), dead_man=ends)
    name, where = workload_name(spec, config), f"{scope}/{config.namespace}"
    yield ResourceRef(JOBSET, where, name, dead_man=dead_man(config))
    if spec.secret_env:
        yield ResourceRef(SECRET, where, f"{name}-env", dead_man="goes with its JobSet")
    if config.smoke:
        ends = (
            f"{TRIAL_S} s after it began; made only where the image is new, and gone before the other is made"
        )
        yield ResourceRef(JOBSET, where, trial_name(lease_id(spec.lease_name, 1)), dead_man=ends)


def dead_man(config: GkeTargetConfig) -> str:
    """Returns what ends a JobSet when everybody else is dead: pods end when nobody renews, and so the JobSet."""
    limit = config.limits.workload_s
    if not config.wait:
        return f"the cluster ends it {limit} s after it began"
    return "its pods end themselves when nobody renews" + (f", or {limit} s after it began" if limit else "")


def _makes_cluster(config: GkeTargetConfig) -> bool:
    return config.cluster is not None and config.cluster.create == "if_missing"


def _refused(spec: RunSpec, config: GkeTargetConfig) -> Iterator[Problem]:
    """Yields what would fail once there are pods, or leave things behind."""
    if "://" not in spec.output and not (config.shared and config.shared.holds(spec.output)):
        what = f"{spec.output} would be in pods, and go with them"
        fix = "give --output gs://BUCKET/FOLDER"
        if config.shared is not None:
            fix += f", or a folder in {config.shared.directory}"
        yield Problem("error", None, what, fix=fix)
    if problem := name_problem(workload_name(spec, config), groups(config)):
        yield problem
    yield from refused_in_pods(spec.env)
    if config.pathways is not None and config.pathways.headless:
        what = "a headless Pathways runs no program, and what is to be measured is one"
        fix = "leave pathways.headless out; slicebench workload create starts the servers alone"
        yield Problem("error", None, what, fix=fix)
    if config.pathways is not None:
        version = spec.source.jax_version
        jax = version if re.fullmatch(r"\d+\.\d+(\.\d+)?", version) else None
        for told in config.pathways.mismatches(jax, None):
            yield Problem("error", None, told, fix="take images of the program's JAX, or that JAX")


def _warnings(config: GkeTargetConfig) -> Iterator[Problem]:
    shape = config.shape
    if config.slices > 1:
        what = f"{config.type} is the type of one slice: {config.slices} slices x {shape}"
        yield Problem("warning", None, f"{what} are {counted(shape.chips * config.slices, shape.unit)}")
    if config.slices > 1 and shape.kind == "tpu" and shape.hosts == 1 and config.pathways is None:
        what = f"GKE joins slices of several hosts into one program, and {config.type} is one host"
        yield Problem("warning", None, what, fix="take a type of more hosts, or slices: 1")
    if shape.kind == "tpu" and shape.topology == "2x4" and shape.hosts == 2:
        what = f"{config.type} is two hosts of four chips, as in xpk"
        one = shape.machine_type.replace("-4t", "-8t")
        yield Problem("warning", None, what, fix=f"one host of eight is type: {one}")
    if (most_s := left_s(config)) is not None:
        what = "wait: false: what is made stays when the command has ended, until somebody comes back with --resume"
        alone_s = left_alone_s(config)
        alone = f" ({in_words(alone_s)} on machines that are made for it alone)" if alone_s else ""
        yield Problem("warning", None, f"{what}, for {in_words(most_s)} at most{alone}")
    if config.queue is None:
        yield Problem(
            "warning", None, "without a queue the pods take what is free at once, outside of all quota"
        )
    if why := exposed(config):
        yield Problem("warning", None, why, fix=FOR_NOBODY_ELSE)
    if config.pathways is not None:
        for image in config.pathways.unpinned():
            yield Problem(
                "warning",
                None,
                f"{image} may be another tomorrow",
                fix="name a tag with its JAX, or a digest",
            )
    if config.cluster is not None:
        yield from _of_the_cluster(config.cluster, shape)


def _of_the_cluster(cluster: ClusterPlace, shape: Accelerator) -> Iterator[Problem]:
    # A cluster is not made for hosts of no type.
    if cluster.create == "if_missing" and cluster.capacity is None and shape.machine_type:
        those = "machines" if shape.kind == "cpu" else "accelerators"
        yield Problem(
            "warning",
            None,
            f"if {cluster.name} is made, its {those} are spot",
            fix="say capacity: on_demand, or another, below cluster:",
        )
