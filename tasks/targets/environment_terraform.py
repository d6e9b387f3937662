"""An environment as a configuration of Terraform (HCL's JSON form), for people who live there. Pure.

Each field that `env up` asks for is at its place in Google's provider, or is named among those that have none there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.cloud.things import value_at
from tasks.config.environment import EnvironmentConfig
from tasks.targets.environment_diff import leaves
from tasks.targets.environment_wanted import FOR_SOME, Kind, Wanted, wanted

Document = dict[str, Any]
_PROVIDER = {"source": "hashicorp/google", "version": ">= 6.50"}

_POLICY, _SLICE = "google_compute_resource_policy", "slices"
_IN_CLUSTER = ("namespace", "kubernetes account", "queue")


@dataclass(frozen=True)
class Exported:
    """The configuration, and what of the environment has no place in it, in words."""

    document: Document
    left_out: Sequence[str]


@dataclass(frozen=True)
class Block:
    """How a kind is told: which resource, where its name and scope go, where each field does (None: it is implied)."""

    resource: str
    name: str
    scope: Sequence[str] = ("project",)
    fields: Mapping[str, str | None] = field(default_factory=dict)


BLOCKS: Mapping[Kind, Block] = {
    "api": Block("google_project_service", "service"),
    "network": Block(
        "google_compute_network",
        "name",
        fields={"autoCreateSubnetworks": "auto_create_subnetworks", "routingConfig.routingMode": "routing_mode"},
    ),
    "subnetwork": Block(
        "google_compute_subnetwork",
        "name",
        ("project", "region"),
        {
            "network": "network",
            "ipCidrRange": "ip_cidr_range",
            "privateIpGoogleAccess": "private_ip_google_access",
            "secondaryIpRanges.*.rangeName": "secondary_ip_range.*.range_name",
            "secondaryIpRanges.*.ipCidrRange": "secondary_ip_range.*.ip_cidr_range",
        },
    ),
    "router": Block("google_compute_router", "name", ("project", "region"), {"network": "network", "nats": None}),
    "firewall": Block(
        "google_compute_firewall",
        "name",
        fields={
            "network": "network",
            "direction": "direction",
            "sourceRanges": "source_ranges",
            "allowed.*.IPProtocol": "allow.*.protocol",
            "allowed.*.ports": "allow.*.ports",
            "disabled": "disabled",
            "priority": "priority",
            **dict.fromkeys(FOR_SOME),
        },
    ),
    "service account": Block(
        "google_service_account", "account_id", fields={"displayName": "display_name", "disabled": "disabled"}
    ),
    "role": Block("google_project_iam_member", "", fields={"role": "role", "member": "member"}),
    "bucket": Block(
        "google_storage_bucket",
        "name",
        fields={
            "location": "location",
            "storageClass": "storage_class",
            "iamConfiguration.uniformBucketLevelAccess.enabled": "uniform_bucket_level_access",
            "iamConfiguration.publicAccessPrevention": "public_access_prevention",
            "versioning.enabled": "versioning.enabled",
        },
    ),
    "bucket role": Block("google_storage_bucket_iam_member", "", ("bucket",), {"role": "role", "member": "member"}),
    "repository": Block(
        "google_artifact_registry_repository", "repository_id", ("project", "location"), {"format": "format"}
    ),
    "tensorboard": Block(
        "google_vertex_ai_tensorboard", "", ("project", "region"), {"displayName": "display_name"}
    ),
    "cluster": Block(
        "google_container_cluster",
        "name",
        ("project", "location"),
        {
            "locations": "node_locations",
            "initial_cluster_version": "min_master_version",
            "network_config.datapath_provider": "datapath_provider",
            "autoscaling.autoscaling_profile": "cluster_autoscaling.autoscaling_profile",
            "ip_allocation_policy.use_ip_aliases": None,
            "master_authorized_networks_config.enabled": None,
            "maintenance_policy.window": "maintenance_policy",
            "control_plane_endpoints_config": "control_plane_endpoints_config",
            "logging_config.component_config.enable_components": "logging_config.enable_components",
            "monitoring_config.component_config.enable_components": "monitoring_config.enable_components",
            **{
                same: same
                for same in (
                    "network", "subnetwork", "description", "release_channel", "ip_allocation_policy", "addons_config",
                    "workload_identity_config", "private_cluster_config", "master_authorized_networks_config",
                )
            },
        },
    ),
    "node pool": Block(
        "google_container_node_pool",
        "name",
        ("project", "location", "cluster"),
        {
            "locations": "node_locations",
            "max_pods_constraint.max_pods_per_node": "max_pods_per_node",
            "autoscaling.enabled": None,
            "config": "node_config",
            **{same: same for same in ("initial_node_count", "autoscaling", "management", "placement_policy")},
        },
    ),
    "account role": Block(
        "google_service_account_iam_member", "", ("service_account_id",), {"role": "role", "member": "member"}
    ),
}  # fmt: skip
"""By longest path first, fields below a path go where it goes."""


def export(config: EnvironmentConfig, project: str) -> Exported:
    """Returns the configuration. Raises BadInput for fields that an API does not have."""
    resources: dict[str, Document] = {}
    left: list[str] = []
    all_of_it = wanted(config, project)
    for one in all_of_it:
        if one.kind in _IN_CLUSTER or one.existing:
            where = "is there already" if one.existing else "is inside the cluster, where `env up` puts it"
            left.append(f"{one} {where}")
            continue
        block = BLOCKS[one.kind]
        body, without = _told(one, block)
        left += [f"{one}: {path} has no place in {block.resource}" for path in without]
        body |= _more(one, config, all_of_it)
        if (
            one.kind == "node pool"
            and "placement_policy" in body
            and config.shape.placement == "workload_policy"
        ):
            policy = _policy(config, project)
            resources.setdefault(_POLICY, {})[_SLICE] = policy
            body["placement_policy"]["policy_name"] = f"${{{_POLICY}.{_SLICE}.name}}"
        resources.setdefault(block.resource, {})[label(one)] = _linked(one, body, all_of_it)
        if one.kind == "router":
            resources.setdefault("google_compute_router_nat", {})[label(one)] = _nat(one)
    provider = {"google": {"project": project, "region": config.region}}
    terraform = {"required_providers": {"google": _PROVIDER}}
    return Exported({"terraform": terraform, "provider": provider, "resource": resources}, left)


def label(one: Wanted) -> str:
    """Returns by which name a resource is called in the configuration."""
    name = f"{one.name.replace('roles/', '')} on {one.scope}" if one.kind.endswith("role") else one.name
    words = re.sub(r"[^a-z0-9]+", "_", name.lower().removesuffix(".googleapis.com")).strip("_")
    return words if words[:1].isalpha() else f"r_{words}"


def _told(one: Wanted, block: Block) -> tuple[Document, list[str]]:
    """Returns a resource's own fields, and the paths of those that have no place there."""
    body: Document = {block.name: one.name} if block.name else {}
    body |= dict(zip(block.scope, one.scope.split("/"), strict=True))
    if one.kind == "account role":
        email = one.scope
        body["service_account_id"] = (
            f"projects/{email.partition('@')[2].partition('.')[0]}/serviceAccounts/{email}"
        )
    left = []
    for path, value in leaves(one.fields):
        found, place = _place(path, block.fields)
        if not found:
            left.append(path)
        elif place is not None:
            _put(body, place.split("."), value)
    return body, left


def _place(path: str, fields: Mapping[str, str | None]) -> tuple[bool, str | None]:
    """Returns whether a field has a place, and which; None: what is there says it without a word."""
    numbers = [part for part in path.split(".") if part.isdecimal()]
    plain = ".".join("*" if part.isdecimal() else part for part in path.split("."))
    for above in sorted(fields, key=len, reverse=True):
        if plain == above or plain.startswith(f"{above}."):
            place = fields[above]
            if place is None:
                return True, None
            rest = plain[len(above) :]
            told = iter(numbers)
            return True, ".".join(next(told) if part == "*" else part for part in f"{place}{rest}".split("."))
    return False, None


def _put(into: Any, path: Sequence[str], value: Any) -> None:
    """Puts a value at a path; a number is a place in a list."""
    for part, following in zip(path, [*path[1:], ""], strict=True):
        last = following == ""
        empty: Any = [] if following.isdecimal() else {}
        if isinstance(into, list):
            while len(into) <= int(part):
                into.append({})
            if last:
                into[int(part)] = value
            into = into[int(part)]
        elif last:
            into[part] = value
        else:
            into = into.setdefault(part, empty)


def _more(one: Wanted, config: EnvironmentConfig, all_of_it: Sequence[Wanted]) -> Document:
    """Returns what is said to Terraform beside what the API is asked for."""
    match one.kind:
        case "api":
            return {"disable_on_destroy": False}
        case "bucket":
            return {"force_destroy": config.bucket.force_destroy}
        case "cluster":  # its first pool is made and removed: ours have names of their own
            return {
                "remove_default_node_pool": True,
                "initial_node_count": 1,
                "deletion_protection": False,
                "depends_on": [
                    f"google_project_service.{label(api)}" for api in all_of_it if api.kind == "api"
                ],
            }
    return {}


def _policy(config: EnvironmentConfig, project: str) -> Document:
    """Returns the policy that slices of one topology share: without one, hosts of some families cannot be had."""
    topology = config.shape.topology
    return {
        "project": project,
        "region": config.region,
        "name": f"{config.cluster.name}-{topology}",
        "workload_policy": {"type": "HIGH_THROUGHPUT", "accelerator_topology": topology},
    }


def _nat(router: Wanted) -> Document:
    project, region = router.scope.split("/")
    [nat] = router.fields["nats"]
    some = [
        {"name": one["name"], "source_ip_ranges_to_nat": one["sourceIpRangesToNat"]}
        for one in nat["subnetworks"]
    ]
    return {
        "project": project,
        "region": region,
        "router": f"${{google_compute_router.{label(router)}.name}}",
        "name": nat["name"],
        "nat_ip_allocate_option": nat["natIpAllocateOption"],
        "source_subnetwork_ip_ranges_to_nat": nat["sourceSubnetworkIpRangesToNat"],
        **({"subnetwork": some} if some else {}),
    }


def _linked(one: Wanted, body: Document, all_of_it: Sequence[Wanted]) -> Document:
    """Returns a resource with references where it names others, so that Terraform knows the order."""

    def refer(path: str, kind: Kind, attribute: str, matches: Callable[[Wanted], bool]) -> None:
        found = next(
            (each for each in all_of_it if each.kind == kind and not each.existing and matches(each)), None
        )
        if found is not None and value_at(body, path) is not None:
            _put(body, path.split("."), f"${{{BLOCKS[kind].resource}.{label(found)}.{attribute}}}")

    def named(path: str) -> Callable[[Wanted], bool]:
        said = str(value_at(body, path))
        return lambda each: said.rpartition("/")[2] == each.name

    refer("network", "network", "id" if one.kind != "cluster" else "name", named("network"))
    refer("subnetwork", "subnetwork", "name", named("subnetwork"))
    refer("bucket", "bucket", "name", named("bucket"))
    refer("cluster", "cluster", "name", named("cluster"))
    email = str(value_at(body, "node_config.service_account"))
    refer(
        "node_config.service_account",
        "service account",
        "email",
        lambda each: email.startswith(f"{each.name}@"),
    )
    whom = str(body.get("member", ""))
    account = next((each for each in _accounts(all_of_it) if f":{each.name}@" in whom), None)
    if account is not None:
        body["member"] = f"serviceAccount:${{google_service_account.{label(account)}.email}}"
    if one.kind == "account role":
        on = next(each for each in _accounts(all_of_it) if one.scope.startswith(f"{each.name}@"))
        body["service_account_id"] = f"${{google_service_account.{label(on)}.name}}"
        body["depends_on"] = [
            f"google_container_cluster.{label(each)}" for each in all_of_it if each.kind == "cluster"
        ]
    return body


def _accounts(all_of_it: Sequence[Wanted]) -> Iterator[Wanted]:
    yield from (each for each in all_of_it if each.kind == "service account")
