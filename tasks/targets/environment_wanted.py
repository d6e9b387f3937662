"""What an environment is made of: every resource with the fields that are asked for, in the order of making. Pure.

Fields are named as in the APIs: those of Compute Engine, Cloud Storage and Vertex AI in JSON, those of GKE as its
messages have them. The order is that in which they need each other; they go in the opposite one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_roles import apis_for
from tasks.targets.cluster_requests import (
    CPU_POOL,
    cluster_request,
    cpu_pool_request,
    pool_name,
    pool_request,
)
from tasks.targets.kube_queues import LOCAL_QUEUE_NAME

Kind = Literal[
    "api",
    "network",
    "subnetwork",
    "router",
    "firewall",
    "service account",
    "role",
    "bucket",
    "bucket role",
    "repository",
    "tensorboard",
    "cluster",
    "node pool",
    "account role",
    "namespace",
    "kubernetes account",
    "queue",
]

IAP_RANGE = "35.235.240.0/20"
"""From where Identity-Aware Proxy reaches machines."""
FOR_SOME = ("sourceTags", "sourceServiceAccounts", "targetTags", "targetServiceAccounts", "destinationRanges")
"""Fields of a firewall rule that hold it to some sources and machines."""
NAT = "nat"
_ADDRESSES = {"nats.0.natIpAllocateOption": ("MANUAL_ONLY",)}
"""A NAT to which somebody gave addresses of their own, for firewalls elsewhere to know, lets nodes out as well."""
WORKLOAD_IDENTITY_ROLE = "roles/iam.workloadIdentityUser"
BUCKET_READER_ROLE = "roles/storage.legacyBucketReader"


@dataclass(frozen=True)
class Wanted:
    """One resource as it is to be. `scope` is where its name counts. `existing`: it is used, and never made.

    `room` are fields that are ranges which nobody said: one that is there does as well, with so many addresses.
    `also` are values that somebody else may have given some fields: they do as well.
    """

    kind: Kind
    scope: str
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    existing: bool = False
    room: Mapping[str, int] = field(default_factory=dict)
    also: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def wanted(config: EnvironmentConfig, project: str) -> list[Wanted]:
    """Returns all of it. Raises BadInput for fields that an API does not have."""
    return [
        *(Wanted("api", project, name) for name in apis_for(config)),
        *_network(config, project),
        *_accounts(config, project),
        *_storage(config, project),
        *_cluster(config, project),
        *_inside(config, project),
    ]


def email(name: str, project: str) -> str:
    """Returns the address of a service account of a project."""
    return f"{name}@{project}.iam.gserviceaccount.com"


def _network(config: EnvironmentConfig, project: str) -> Iterator[Wanted]:
    network, there = config.network, config.network.existing
    home = network.host_project or project
    region = f"{home}/{config.region}"
    link = f"projects/{home}/global/networks/{network.name}"
    fields = {"autoCreateSubnetworks": False, "routingConfig": {"routingMode": "REGIONAL"}}
    yield Wanted("network", home, network.name, {} if there else fields, there)
    nodes, pods, services = config.ranges
    ranges = [
        {"rangeName": network.pods_range_name, "ipCidrRange": pods.cidr},
        {"rangeName": network.services_range_name, "ipCidrRange": services.cidr},
    ]
    fields = {
        "network": link,
        "ipCidrRange": nodes.cidr,
        "privateIpGoogleAccess": True,
        "secondaryIpRanges": ranges,
    }
    room = {
        path: one.least
        for path, one in (
            ("ipCidrRange", nodes),
            ("secondaryIpRanges.0.ipCidrRange", pods),
            ("secondaryIpRanges.1.ipCidrRange", services),
        )
        if not one.told
    }
    yield Wanted("subnetwork", region, network.subnet, fields, there, room)
    if config.has_nat:
        name = network.router or f"{network.name[:56].rstrip('-')}-router"
        nat = _nat(f"projects/{region.replace('/', '/regions/')}/subnetworks/{network.subnet}", alone=there)
        yield Wanted("router", region, name, {"network": link, "nats": [nat]}, also=_ADDRESSES)
    if network.iap and not there:
        fields = {
            "network": link,
            "direction": "INGRESS",
            "sourceRanges": [IAP_RANGE],
            "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
            "disabled": False,
            "priority": 1000,
            **{name: [] for name in FOR_SOME},  # by any of these it lets fewer in, or to fewer
        }
        yield Wanted("firewall", home, f"{network.name[:52].rstrip('-')}-allow-iap", fields)


def _nat(subnet: str, *, alone: bool) -> dict[str, Any]:
    """Returns the NAT of a network. `alone`: for its one subnetwork, as the others are other people's."""
    nat: dict[str, Any] = {"name": NAT, "natIpAllocateOption": "AUTO_ONLY"}
    if alone:
        some = [{"name": subnet, "sourceIpRangesToNat": ["ALL_IP_RANGES"]}]
        return {**nat, "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": some}
    return {**nat, "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES", "subnetworks": []}


def _accounts(config: EnvironmentConfig, project: str) -> Iterator[Wanted]:
    nodes, workloads = config.accounts.nodes, config.accounts.workloads
    for account, words in ((nodes, "nodes"), (workloads, "workloads")):
        fields = {"displayName": f"{words} of {config.called}"[:100], "disabled": False}
        yield Wanted("service account", project, account.name, fields)
    for account, roles in ((nodes, config.node_roles), (workloads, workloads.roles)):
        for role in roles:
            yield _grant("role", project, role, f"serviceAccount:{email(account.name, project)}")


def _storage(config: EnvironmentConfig, project: str) -> Iterator[Wanted]:
    bucket = config.bucket
    fields: dict[str, Any] = {
        "location": (bucket.location or config.region).upper(),
        "storageClass": bucket.storage_class,
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
        "versioning": {"enabled": bucket.versioning},
    }
    yield Wanted("bucket", project, bucket.name, fields)
    for account in (config.accounts.nodes, config.accounts.workloads):
        member = f"serviceAccount:{email(account.name, project)}"
        yield _grant("bucket role", bucket.name, BUCKET_READER_ROLE, member)
    if config.registry is not None:
        place = config.registry.location or config.region
        yield Wanted("repository", f"{project}/{place}", config.registry.name, {"format": "DOCKER"})
    if config.tensorboard is not None:
        name = config.tensorboard.name or config.called
        yield Wanted("tensorboard", f"{project}/{config.tensorboard_location}", name, {"displayName": name})


def _cluster(config: EnvironmentConfig, project: str) -> Iterator[Wanted]:
    cluster, shape = cluster_of(config, project), config.shape
    name = config.cluster.name
    asked = cluster_request(name, cluster, project, {})
    fields = {
        key: value for key, value in asked.items() if key not in ("name", "node_pools", "resource_labels")
    }
    # Asked for also where the file names none: it may have named some before.
    fields.setdefault("master_authorized_networks_config", {"enabled": False})
    yield Wanted("cluster", f"{project}/{cluster.location}", name, fields)
    inside = f"{project}/{cluster.location}/{name}"
    yield Wanted("node pool", inside, CPU_POOL, _unnamed(cpu_pool_request(cluster, {})))
    for index in range(config.tpu_pools):
        named = pool_name(index, cluster.pool_prefix)
        yield Wanted("node pool", inside, named, _unnamed(pool_request(named, cluster, shape, {})))


def _inside(config: EnvironmentConfig, project: str) -> Iterator[Wanted]:
    account = config.accounts.workloads
    location = cluster_of(config, project).location
    inside = f"{project}/{location}/{config.cluster.name}"
    whom = email(account.name, project)
    for space in namespaces(config):
        member = f"serviceAccount:{project}.svc.id.goog[{space}/{account.kubernetes}]"
        yield _grant("account role", whom, WORKLOAD_IDENTITY_ROLE, member)
    for space in namespaces(config) if config.queueing.install else ():
        yield Wanted("namespace", inside, space)
        annotations = {"iam.gke.io/gcp-service-account": whom}
        at = f"{inside}/{space}"
        yield Wanted("kubernetes account", at, account.kubernetes, {"annotations": annotations})
        yield Wanted("queue", at, LOCAL_QUEUE_NAME)


def namespaces(config: EnvironmentConfig) -> list[str]:
    """Returns the namespaces in which workloads are: those of the teams, else the one."""
    return [team.namespace or team.name for team in config.teams] or [config.namespace]


def _grant(kind: Kind, scope: str, role: str, member: str) -> Wanted:
    return Wanted(kind, scope, f"{role} for {member}", {"role": role, "member": member})


def _unnamed(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a node pool's fields without its name, and without labels that only say whose it is."""
    node = {key: value for key, value in request["config"].items() if key != "resource_labels"}
    return {**{key: value for key, value in request.items() if key != "name"}, "config": node}
