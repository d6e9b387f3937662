"""Which APIs, roles and permissions an environment needs, and what each is for: data, for checks and for the docs.

Roles are Google's own, the least of them that do; facts: Google's references of roles, 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tasks.config.environment import EnvironmentConfig


@dataclass(frozen=True)
class Api:
    """An API that must be on in the project. `part`: only where the environment has that; empty: always."""

    name: str
    why: str
    part: str = ""


@dataclass(frozen=True)
class Need:
    """A role of who makes an environment: its permissions that are used, and what for. `part`: as of an Api.

    `of_network`: in the project that the network is in, which may be another one.
    """

    role: str
    permissions: tuple[str, ...]
    why: str
    part: str = ""
    of_network: bool = False


APIS = (
    Api("serviceusage.googleapis.com", "to turn the others on"),
    Api("cloudresourcemanager.googleapis.com", "roles on the project"),
    Api("iam.googleapis.com", "service accounts"),
    Api("iamcredentials.googleapis.com", "pods act as a service account by Workload Identity"),
    Api("compute.googleapis.com", "network, subnetwork, router, firewall, machines"),
    Api("container.googleapis.com", "the cluster and its node pools"),
    Api("storage.googleapis.com", "the bucket, and the environment's own record"),
    Api("logging.googleapis.com", "logs of system and workloads"),
    Api("monitoring.googleapis.com", "metrics of nodes and TPUs"),
    Api("artifactregistry.googleapis.com", "images of workers", "registry"),
    Api("aiplatform.googleapis.com", "TensorBoard of Vertex AI", "tensorboard"),
    Api("iap.googleapis.com", "SSH to nodes without public addresses", "iap"),
)


def _all(prefix: str, *verbs: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{verb}" for verb in verbs)


_OPERATIONS = _all("compute", "globalOperations.get", "regionOperations.get")
"""To wait for what Compute Engine is doing: asked for by nobody but the caller."""
_LOOKED_AT = _all("compute", "instanceGroupManagers.get", "machineTypes.get", "regions.get")
_PUT_IN = (
    "apiServices",
    "clusterRoleBindings",
    "configMaps",
    "customResourceDefinitions",
    "deployments",
    "mutatingWebhookConfigurations",
    "namespaces",
    "priorityClasses",
    "roleBindings",
    "secrets",
    "serviceAccounts",
    "services",
    "validatingWebhookConfigurations",
)
"""Kinds of what the manifests of JobSet and Kueue, and the queues, are made of."""

NEEDS = (
    Need(
        "roles/serviceusage.serviceUsageAdmin",
        ("serviceusage.operations.get", *_all("serviceusage.services", "enable", "get")),
        "turns the APIs on that are off; they stay on when the environment goes",
    ),
    Need(
        "roles/compute.networkAdmin",
        (
            *_all("compute.networks", "create", "delete", "get", "updatePolicy"),
            *_all("compute.subnetworks", "create", "delete", "expandIpCidrRange", "get"),
            *_all("compute.subnetworks", "setPrivateIpGoogleAccess", "update", "use"),
            *_OPERATIONS,
            *_LOOKED_AT,
        ),
        "makes network and subnetwork, changes them, and takes them away",
        "network",
    ),
    Need(
        "roles/compute.networkAdmin",
        (
            *_all("compute.routers", "create", "delete", "get", "list", "update"),
            "compute.networks.updatePolicy",
            "compute.regionOperations.get",
        ),
        "makes the router with NAT, also in a network that is there, changes it, and takes it away",
        "router",
        of_network=True,
    ),
    Need(
        "roles/compute.networkUser",
        ("compute.networks.get", *_all("compute.subnetworks", "get", "use")),
        "uses a network that is there; of a shared VPC in its own project, where the subnetwork alone may be enough",
        "existing",
        of_network=True,
    ),
    Need(
        "roles/compute.securityAdmin",
        (
            *_all("compute.firewalls", "create", "delete", "get", "list", "update"),
            "compute.networks.updatePolicy",
            "compute.globalOperations.get",
        ),
        "lets Identity-Aware Proxy reach nodes; takes away rules that GKE left in the network",
        "network",
    ),
    Need(
        "roles/compute.viewer",
        _LOOKED_AT,
        "looks before anything is made whether the region has the machines, and later how many node pools have: "
        "`compute.networkAdmin` does as well",
        "existing",
    ),
    Need(
        "roles/compute.viewer",
        ("compute.reservations.get",),
        "looks before anything is made whether the reservations are there",
        "reservations",
    ),
    Need(
        "roles/compute.instanceAdmin.v1",
        (
            *_all("compute.resourcePolicies", "create", "delete", "get", "list"),
            "compute.regionOperations.get",
        ),
        "makes the policy by which hosts of a slice are placed near each other, where the kind of TPU takes one, and "
        "takes it away",
        "placement",
    ),
    Need(
        "roles/iam.serviceAccountAdmin",
        _all(
            "iam.serviceAccounts",
            "create",
            "delete",
            "enable",
            "get",
            "getIamPolicy",
            "setIamPolicy",
            "update",
        ),
        "makes the accounts of nodes and workloads, and lets pods act as the latter",
    ),
    Need(
        "roles/iam.serviceAccountUser",
        ("iam.serviceAccounts.actAs",),
        "gives nodes their account",
    ),
    Need(
        "roles/resourcemanager.projectIamAdmin",
        _all("resourcemanager.projects", "getIamPolicy", "setIamPolicy"),
        "gives both accounts their roles on the project; `env deployer` lets it give these roles and no others",
    ),
    Need(
        "roles/storage.admin",
        (
            *_all("storage.buckets", "create", "delete", "get", "getIamPolicy", "setIamPolicy", "update"),
            *_all("storage.objects", "create", "delete", "get", "list"),
        ),
        "makes the bucket and lets both accounts use it; reads and writes the environment's record",
    ),
    Need(
        "roles/artifactregistry.admin",
        _all("artifactregistry.repositories", "create", "delete", "get", "update"),
        "makes the repository of images",
        "registry",
    ),
    Need(
        "roles/aiplatform.user",
        _all("aiplatform.tensorboards", "create", "delete", "get", "list", "update"),
        "makes the TensorBoard, and gives it its name again",
        "tensorboard",
    ),
    Need(
        "roles/container.admin",
        (
            *_all("container.clusters", "create", "delete", "get", "list", "update"),
            *_all("container.operations", "get", "list"),
        ),
        "makes the cluster and its node pools",
    ),
    Need(
        "roles/container.admin",
        (
            *(f"container.{kind}.create" for kind in _PUT_IN),
            *_all("container.clusterRoles", "create", "escalate"),
            *_all("container.roles", "create", "escalate"),
            *_all("container.thirdPartyObjects", "create", "delete", "get", "list", "update"),
            "container.nodes.list",
        ),
        "puts JobSet, Kueue and the queues into it; the roles of these let them do more than you, hence `escalate`",
        "inside",
    ),
)

ROLES_OF_ACCOUNTS = {
    "roles/storage.objectAdmin": "reads and writes checkpoints, results and code in the bucket",
    "roles/logging.logWriter": "writes logs",
    "roles/artifactregistry.reader": "pulls images of workers",
    "roles/monitoring.metricWriter": "writes metrics of nodes, where cluster.monitoring is on",
    "roles/storage.legacyBucketReader": "on the bucket alone: looks at the bucket itself, as mounts of it do",
    "roles/iam.workloadIdentityUser": "on the workloads' account alone: lets the Kubernetes account act as it",
}
"""What nodes and workloads are given unless a file says otherwise."""


def parts_of(config: EnvironmentConfig) -> Iterator[str]:
    """Yields the parts that an environment has, of those that not each has."""
    if not config.network.existing:
        yield "network"
        if config.network.iap:
            yield "iap"
    else:
        yield "existing"
    if config.has_nat:
        yield "router"
    if config.shape.placement == "workload_policy":
        yield "placement"
    if any("/" not in one for one in config.tpu.reservations):  # others are in projects of their own
        yield "reservations"
    if config.queueing.install:
        yield "inside"
    if config.registry is not None:
        yield "registry"
    if config.tensorboard is not None:
        yield "tensorboard"


def apis_for(config: EnvironmentConfig) -> tuple[str, ...]:
    """Returns the APIs that an environment needs."""
    parts = {"", *parts_of(config)}
    return tuple(api.name for api in APIS if api.part in parts)


def needs_of(config: EnvironmentConfig) -> tuple[Need, ...]:
    """Returns what who makes an environment must be allowed to do."""
    parts = {"", *parts_of(config)}
    return tuple(need for need in NEEDS if need.part in parts)


_TO_GIVE_BACK = re.compile(r"\.(delete|get|list|getIamPolicy|setIamPolicy|updatePolicy)$|^storage\.objects\.")
"""Permissions that are used when an environment goes; the record is written as well."""
_ONLY_TO_MAKE = re.compile(
    r"^(serviceusage|compute\.(instanceGroupManagers|machineTypes|regions|reservations|\w+Operations)|container\.(?!clusters|operations))\."
)
"""What is only looked at before or while something is made; and what is inside a cluster goes with it."""


def permissions_to_give_back(
    config: EnvironmentConfig, project: str, *, bucket: bool
) -> Mapping[str, tuple[str, ...]]:
    """Returns those of `permissions_of` that are needed to give an environment back, with its bucket or without."""
    left_out = () if bucket else ("storage.buckets.delete",)
    return {
        where: tuple(
            one
            for one in some
            if _TO_GIVE_BACK.search(one) and not _ONLY_TO_MAKE.search(one) and one not in left_out
        )
        for where, some in permissions_of(config, project).items()
    }


def permissions_of(config: EnvironmentConfig, project: str) -> Mapping[str, tuple[str, ...]]:
    """Returns the permissions that are needed, by the project in which they are.

    What is needed to use a shared VPC is not among them: it may be given on its subnetwork alone.
    """
    host = config.network.host_project or project
    found: dict[str, set[str]] = {}
    for need in needs_of(config):
        if need.part != "existing" or host == project:
            found.setdefault(host if need.of_network else project, set()).update(need.permissions)
    return {where: tuple(sorted(some)) for where, some in found.items()}
