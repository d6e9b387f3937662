"""The pods of a JobSet: containers, environment, volumes, and the nodes they may be on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.contract.pod import CONTAINER_VARIABLE, CONTAINERS_VARIABLE
from tasks.cloud.kubernetes_labels import (
    COMPLETION_INDEX,
    HOST,
    JOB_INDEX,
    JOBSET_NAME,
    NODE_POOL,
    PLACED_BY_KUEUE,
    REPLICATED_JOB,
)
from tasks.config import size
from tasks.targets import kube_beside, kube_gpudirect, kube_sidecars
from tasks.targets.kube_submission import (
    Object,
    Parts,
    Submission,
    annotation,
    from_field,
    given,
    label,
    literal,
    literals,
    variables,
)

if TYPE_CHECKING:
    from tasks.config.gke_parts import Shared
    from tasks.config.gke_target import GkeTargetConfig

SLICE_JOB = "slice-job"
COORDINATOR_PORT = 6002
_SPOT = "cloud.google.com/gke-spot"
_RESERVATION = "cloud.google.com/reservation-name"
_RAMDISK_DRIVERS = {
    "gke": "phase1-checkpoint.csi.storage.gke.io",
    "multi_tier": "multitier-checkpoint.csi.storage.gke.io",
}


def worker_pod(config: GkeTargetConfig, submission: Submission) -> Object:
    """Returns the template of the pods that run the program on a slice."""
    parts = worker_parts(config, submission)
    return pod_template(
        config,
        submission,
        parts,
        containers=worker_containers(config, submission, parts),
        selector={**config.shape.node_selector, **_of_capacity(config), **config.node_selector},
        tolerations=config.shape.tolerations,
        affinity=_affinity(config, submission.name),
        annotations=config.pod_annotations,
    )


def worker_parts(config: GkeTargetConfig, submission: Submission) -> Parts:
    """Returns shared memory, RAM disk, GPU networks and sidecars, as the config has them."""
    parts = Parts()
    parts.volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory"}})
    parts.mounts.append({"name": "dshm", "mountPath": "/dev/shm"})
    if config.ramdisk is not None:
        parts.mounts.append({"name": "ramdisk", "mountPath": config.ramdisk.directory})
        parts.volumes.append({"name": "ramdisk", **_ramdisk(config)})
    if config.shared is not None:
        parts.mounts.append({"name": "shared", "mountPath": config.shared.directory})
        parts.volumes.append({"name": "shared", **_shared(config.shared)})
    parts.add(kube_gpudirect.parts(config))
    parts.add(kube_sidecars.parts(config, submission))
    if asked := kube_sidecars.requests(config):
        parts.sidecars = [{**one, "resources": {"requests": asked}} for one in parts.sidecars]
    parts.add(kube_beside.parts(config, submission))
    return parts


def pod_template(
    config: GkeTargetConfig,
    submission: Submission,
    parts: Parts,
    *,
    containers: Sequence[Object],
    selector: Mapping[str, str],
    tolerations: Sequence[Object] = (),
    affinity: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    restart_policy: str = "Never",
) -> Object:
    """Returns a pod template with what all pods of a JobSet have in common."""
    extra = [{"key": key, "operator": "Exists"} for key in config.tolerations]
    spec = given(
        restartPolicy=restart_policy,
        schedulerName=config.scheduler,
        priorityClassName=config.priority,
        serviceAccountName=config.service_account,
        imagePullSecrets=[{"name": config.image_pull_secret}] if config.image_pull_secret else None,
        nodeSelector=dict(selector),
        affinity=affinity,
        tolerations=[*tolerations, *extra],
        hostNetwork=config.uses_host_network or None,
        dnsPolicy="ClusterFirstWithHostNet" if config.uses_host_network else None,
        initContainers=parts.sidecars,
        containers=list(containers),
        volumes=parts.volumes,
    )
    # 0 is a wish too: to be killed at once.
    spec["terminationGracePeriodSeconds"] = config.limits.termination_grace_s
    metadata = given(labels=dict(submission.labels), annotations={**parts.annotations, **(annotations or {})})
    return given(metadata=metadata) | {"spec": spec}


def worker_containers(config: GkeTargetConfig, submission: Submission, parts: Parts) -> list[Object]:
    """Returns the containers that run the program: one, or several that share the host's chips."""
    shape, count = config.shape, config.containers_per_host
    limits = worker_limits(config)
    if shape.kind == "cpu" and shape.machine_type and config.cpu is None:
        limits["cpu"] = max(1, int(shape.chips_per_host * 0.95)) // count or 1
    elif shape.kind != "cpu":
        limits[shape.resource] = shape.chips_per_host // count
    return [
        container(
            config,
            submission,
            parts,
            name=name,
            limits=limits,
            place=where_it_is(config, submission.name)
            | ({CONTAINER_VARIABLE: str(index), CONTAINERS_VARIABLE: str(count)} if count > 1 else {}),
        )
        for index, name in enumerate(container_names(config))
    ]


def worker_limits(config: GkeTargetConfig) -> Object:
    """Returns what each worker asks for besides chips."""
    memory = None if config.memory is None else str(size.in_bytes(config.memory))
    return given(cpu=config.cpu, memory=memory)


def container_names(config: GkeTargetConfig) -> list[str]:
    """Returns the names of the containers that run the program in each pod."""
    return config.container_names


def container(
    config: GkeTargetConfig,
    submission: Submission,
    parts: Parts,
    *,
    name: str,
    limits: Object,
    place: Mapping[str, str | Object],
) -> Object:
    """Returns a container that runs the program itself, so that it gets signals at once."""
    secrets: dict[str, str | Object] = {
        key: {"secretKeyRef": {"name": submission.secret_name, "key": key}} for key in submission.secrets
    }
    env = variables(
        {key: from_field(path) for key, path in submission.fields.items()},
        place,
        parts.env,
        literals(config.env),
        literals(submission.env),
        secrets,
        kube_sidecars.xla_flags(config, {**config.env, **submission.env}),
        kube_beside.workload_env(config, submission),
    )
    return given(
        name=name,
        image=submission.image,
        command=[literal(word) for word in submission.command],
        env=env,
        resources=given(limits=limits),
        securityContext={"privileged": True} if config.is_privileged else None,
        volumeMounts=parts.mounts,
    )


def where_it_is(config: GkeTargetConfig, name: str) -> dict[str, str | Object]:
    """Returns the variables that tell a pod which it is, and how many there are."""
    shape, first = config.shape, address_of(name)
    processes = shape.hosts * config.containers_per_host
    env: dict[str, str | Object] = {
        "JOBSET_NAME": name,
        "REPLICATED_JOB_NAME": SLICE_JOB,
        "JOB_INDEX": from_field(annotation(JOB_INDEX)),
        "JOB_COMPLETION_INDEX": from_field(annotation(COMPLETION_INDEX)),
        "PROCESSES_IN_JOB": str(processes),
        "JAX_PROCESS_COUNT": str(processes * config.slices),
    }
    if config.slices > 1 and shape.kind == "tpu":
        env |= {
            "MEGASCALE_NUM_SLICES": str(config.slices),
            "MEGASCALE_SLICE_ID": from_field(label(JOB_INDEX)),
            "MEGASCALE_COORDINATOR_ADDRESS": first,
        }
    if shape.kind != "tpu":
        env |= {"JAX_COORDINATOR_ADDRESS": first, "JAX_COORDINATOR_PORT": str(COORDINATOR_PORT)}
    if shape.kind == "gpu":
        rank = from_field(annotation(COMPLETION_INDEX))
        env |= {
            "NNODES": str(shape.hosts),
            "NODE_RANK": rank,
            "GPUS_PER_NODE": str(shape.chips_per_host),
        }
    return env


def address_of(name: str, job: int = 0, pod: int = 0) -> str:
    """Returns the name by which one pod of a workload finds another; by default the first one of all."""
    return f"{name}-{SLICE_JOB}-{job}-{pod}.{name}"


def _ramdisk(config: GkeTargetConfig) -> Object:
    disk = config.ramdisk
    assert disk is not None
    if disk.size is not None:
        return {"emptyDir": {"medium": "Memory", "sizeLimit": str(size.in_bytes(disk.size))}}
    return {"csi": {"driver": _RAMDISK_DRIVERS[disk.by]}}


def _shared(folder: Shared) -> Object:
    if folder.claim is not None:
        return {"persistentVolumeClaim": {"claimName": folder.claim}}
    if folder.nfs is not None:
        server, _, path = folder.nfs.partition(":")
        return {"nfs": {"server": server, "path": path}}
    return {"hostPath": {"path": folder.host_path, "type": "Directory"}}


def _of_capacity(config: GkeTargetConfig) -> dict[str, str]:
    """Returns the labels that GKE gives nodes by how they are paid for, where the config says that."""
    cluster = config.cluster
    if cluster is None or cluster.capacity is None:
        return {}
    if cluster.capacity == "reservation" and len(cluster.reservations) == 1:
        return {_RESERVATION: _reservation_name(cluster.reservations[0])}
    by_label: Mapping[str, dict[str, str]] = {
        "spot": {_SPOT: "true"},
        "flex_start": {"cloud.google.com/gke-flex-start": "true"},
    }
    return by_label.get(cluster.capacity, {})


def _affinity(config: GkeTargetConfig, workload: str) -> Object | None:
    found = given(nodeAffinity=_node_affinity(config), podAntiAffinity=_apart(config, workload))
    return found or None


def _apart(config: GkeTargetConfig, workload: str) -> Object | None:
    """Returns that each pod wants a host to itself, where several would fit on one: each is taken for a host.

    TPUs, most GPUs and processors that nobody counted fill their hosts. Where Kueue chooses hosts this is not asked.
    """
    by_kueue = any(key.startswith(PLACED_BY_KUEUE) for key in config.pod_annotations)
    filled = not config.shape.may_share_hosts and (config.shape.kind != "cpu" or config.cpu is None)
    if not config.on_gke or filled or by_kueue or config.slices * config.shape.hosts == 1:
        return None
    labels = {JOBSET_NAME: workload, REPLICATED_JOB: SLICE_JOB}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _node_affinity(config: GkeTargetConfig) -> Object | None:
    wishes: list[Object] = []
    if config.shape.kind == "cpu" and config.on_gke:
        wishes.append({"key": NODE_POOL, "operator": "NotIn", "values": ["default-pool"]})
    cluster = config.cluster
    if cluster is not None and cluster.capacity == "on_demand":
        wishes.append({"key": _SPOT, "operator": "DoesNotExist"})
    if cluster is not None and len(cluster.reservations) > 1:
        names = dict.fromkeys(_reservation_name(each) for each in cluster.reservations)
        wishes.append({"key": _RESERVATION, "operator": "In", "values": list(names)})
    if not wishes:
        return None
    required = {"nodeSelectorTerms": [{"matchExpressions": wishes}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": required}


def _reservation_name(path: str) -> str:
    """Returns the name in NAME, projects/P/reservations/NAME, and either with a block of it behind."""
    return re.sub(r"^projects/[^/]+/reservations/", "", path).partition("/")[0]
