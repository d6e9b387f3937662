"""Pathways: a head with the program and two servers on a CPU host, and Pathways' workers on the hosts of the slices.

Sources: the JobSet that the PathwaysJob controller renders, and xpk's. The head is addressed by its name, not by
JobSet's coordinator label, in which the JobSet's name would have to fit twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.cloud.kubernetes_labels import EXCLUSIVE, HOST, JOB_INDEX, JOBSET_NAME, NODE_POOL, REPLICATED_JOB
from tasks.config.sidecar_in_pods import PATHWAYS_MANAGER, PATHWAYS_PROXY
from tasks.targets import kube_policy
from tasks.targets.kube_jobs import job
from tasks.targets.kube_submission import (
    Object,
    Parts,
    Submission,
    annotation,
    from_field,
    given,
    label,
    literal,
    variables,
)
from tasks.targets.kube_template import container, pod_template, worker_limits, worker_parts

if TYPE_CHECKING:
    from tasks.config.gke_parts import Pathways
    from tasks.config.gke_target import GkeTargetConfig

HEAD, WORKER = "pathways-head", "worker"
PROXY_PORT, MANAGER_PORT, WORKER_PORT, SIDECAR_PORT = 29000, 29001, 29005, 50051
_TRIES_OF_A_HOST = 4
_TMP: Object = {"name": "shared-tmp", "hostPath": {"path": "/tmp", "type": "DirectoryOrCreate"}}
_TMP_MOUNT: Object = {"name": "shared-tmp", "mountPath": "/tmp"}


def spec(
    config: GkeTargetConfig, submission: Submission, pathways: Pathways, deadline_s: int | None
) -> Object:
    """Returns the spec of the JobSet: the head starts first, and its success is that of the whole."""
    success = {"operator": "All", "targetReplicatedJobs": [HEAD]}
    return given(
        network={"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        startupPolicy={"startupPolicyOrder": "InOrder"},
        successPolicy=None if pathways.headless else success,
        failurePolicy=kube_policy.failure_policy(
            config, deadline=deadline_s is not None, once=submission.once
        ),
        replicatedJobs=[
            _head(config, submission, pathways, deadline_s),
            _workers(config, submission, pathways, deadline_s),
        ],
    )


def _head(
    config: GkeTargetConfig, submission: Submission, pathways: Pathways, deadline_s: int | None
) -> Object:
    servers = [_proxy(submission, pathways), _manager(config, submission, pathways)]
    parts = Parts()
    if pathways.headless:
        containers, counted = servers, [server["name"] for server in servers]
        parts.volumes.append(_TMP)
    else:
        parts.add(worker_parts(config, submission))
        parts.volumes.append(_TMP)
        parts.mounts.append(_TMP_MOUNT)
        parts.sidecars += [{**server, "restartPolicy": "Always"} for server in servers]
        limits = {"cpu": "24", "memory": "100G"} | worker_limits(config)
        place = _place(submission.name)
        containers = [
            container(config, submission, parts, name=config.container_name, limits=limits, place=place)
        ]
        counted = [config.container_name]
    pool = pathways.head_node_pool
    pod = pod_template(
        config,
        submission,
        parts,
        containers=containers,
        selector={NODE_POOL: pool} if pool else {},
    )
    template = job(
        config, submission, pod,
        pods=1, deadline_s=deadline_s, containers=counted, annotations={EXCLUSIVE: HOST},
    )  # fmt: skip
    return {"name": HEAD, "replicas": 1, "template": template}


def _place(name: str) -> dict[str, str | Object]:
    head = head_of(name)
    return {
        "PATHWAYS_HEAD": head,
        "JAX_PLATFORMS": "proxy",
        "XCLOUD_ENVIRONMENT": "GCP",
        "JAX_BACKEND_TARGET": f"grpc://{head}:{PROXY_PORT}",
    }


def head_of(name: str) -> str:
    """Returns the address of the head of a workload."""
    return f"{name}-{HEAD}-0-0.{name}"


def _proxy(submission: Submission, pathways: Pathways) -> Object:
    elastic = [f"--num_elastic_slices={pathways.elastic_slices}"] if pathways.elastic_slices else []
    args = [
        f"--server_port={PROXY_PORT}",
        f"--resource_manager_address={head_of(submission.name)}:{MANAGER_PORT}",
        f"--gcs_scratch_location={pathways.scratch}",
        *elastic,
    ]
    return _server(
        PATHWAYS_PROXY, pathways.proxy_image, args, {}, [PROXY_PORT], {"cpu": "16", "memory": "100G"}
    )


def _manager(config: GkeTargetConfig, submission: Submission, pathways: Pathways) -> Object:
    args = [
        f"--server_port={MANAGER_PORT}",
        f"--gcs_scratch_location={pathways.scratch}",
        "--node_type=resource_manager",
        f"--instance_count={config.slices}",
        f"--instance_type={config.shape.pathways}:{config.shape.topology}",
    ]
    env: dict[str, str | Object] = {
        **_identity(),
        "HOST_ADDRESS": head_of(submission.name),
        "TPU_SKIP_MDS_QUERY": "true",
    }
    ports = [MANAGER_PORT, MANAGER_PORT + 1]
    return _server(PATHWAYS_MANAGER, pathways.server_image, args, env, ports, {"cpu": "8", "memory": "32G"})


def _workers(
    config: GkeTargetConfig, submission: Submission, pathways: Pathways, deadline_s: int | None
) -> Object:
    shape, head = config.shape, head_of(submission.name)
    env: dict[str, str | Object] = {
        "TPU_MIN_LOG_LEVEL": "0",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "XCLOUD_ENVIRONMENT": "GCP",
        "MEGASCALE_GRPC_ENABLE_XOR_TRACER": "false",
        "MEGASCALE_NUM_SLICES": str(config.slices),
        **_identity(),
        "MEGASCALE_SLICE_ID": from_field(label(JOB_INDEX)),
        "PATHWAYS_HEAD": head,
        "MEGASCALE_COORDINATOR_ADDRESS": head,
    }
    args = [
        f"--server_port={WORKER_PORT}",
        f"--resource_manager_address={head}:{MANAGER_PORT}",
        f"--gcs_scratch_location={pathways.scratch}",
    ]
    ports = [WORKER_PORT, WORKER_PORT + 1, 8471, 8080]
    limits = {shape.resource: shape.chips_per_host}
    server = _server("pathways-worker", pathways.server_image, args, env, ports, limits)
    server["volumeMounts"] = [_TMP_MOUNT]
    parts = Parts(volumes=[_TMP], sidecars=_colocated(pathways))
    pod = pod_template(
        config,
        submission,
        parts,
        containers=[server],
        selector={**shape.node_selector, **config.node_selector},
        tolerations=shape.tolerations,
        annotations=config.pod_annotations,
        restart_policy="OnFailure",
    )
    template = job(
        config, submission, pod,
        pods=shape.hosts,
        deadline_s=deadline_s,
        backoff=shape.hosts * (pathways.max_slice_restarts or _TRIES_OF_A_HOST),
        annotations=given(**{EXCLUSIVE: config.exclusive_label}),
    )  # fmt: skip
    return {"name": WORKER, "replicas": config.slices, "template": template}


def _identity() -> dict[str, str | Object]:
    return {
        "REPLICATED_JOB_NAME": from_field(annotation(REPLICATED_JOB)),
        "JOBSET_NAME": from_field(annotation(JOBSET_NAME)),
    }


def _colocated(pathways: Pathways) -> list[Object]:
    """Returns the container in which a worker runs Python beside its chips, if there is to be one."""
    if pathways.colocated_python_image is None:
        return []
    sidecar = _server(
        "colocated-python", pathways.colocated_python_image, [],
        {"GRPC_SERVER_ADDRESS": f"0.0.0.0:{SIDECAR_PORT}"}, [SIDECAR_PORT], {},
    )  # fmt: skip
    return [{**sidecar, "restartPolicy": "Always", "volumeMounts": [_TMP_MOUNT]}]


def _server(
    name: str,
    image: str,
    args: Sequence[str],
    env: Mapping[str, str | Object],
    ports: Sequence[int],
    limits: Object,
) -> Object:
    return given(
        name=name,
        image=image,
        args=[literal(word) for word in args],
        env=variables(env),
        ports=[{"containerPort": port, "protocol": "TCP"} for port in ports],
        resources=given(limits=limits),
    )
