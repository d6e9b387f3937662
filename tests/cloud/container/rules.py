"""What the service refuses, with its codes and words: names, places, machines, topologies, capacity, quotas."""

from __future__ import annotations

import re
from typing import Any

from tests.cloud.container.catalog import (
    CHANNELS,
    MACHINES,
    REGIONS,
    VERSIONS,
    ZONES,
    Machine,
    hosts_of,
    machines_in,
    zones_of,
)
from tests.cloud.container.store import World
from tests.cloud.rpc import Refused

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_PARENT = re.compile(r"projects/([^/]+)/locations/([^/]+)")
Pool = dict[str, Any]
"""A node pool as JSON, with the API's names."""


def bad(message: str) -> Refused:
    """Returns the service's way to say that the request is wrong."""
    return Refused("INVALID_ARGUMENT", message)


def place(world: World, parent: str, *, anywhere: bool = False) -> tuple[str, str]:
    """Returns project and location of a parent."""
    match = _PARENT.fullmatch(parent)
    if not match:
        raise bad(f"Invalid value for field parent: {parent!r}")
    project, location = match[1], match[2]
    if project not in world["settings"]["projects"]:
        raise Refused(
            "PERMISSION_DENIED",
            f"Kubernetes Engine API has not been used in project {project} before or it is disabled. Enable it by "
            f"visiting https://console.developers.google.com/apis/api/container.googleapis.com/overview?project={project}",
        )
    if location not in ZONES and location not in REGIONS and not (anywhere and location == "-"):
        raise Refused(
            "PERMISSION_DENIED", f"Permission denied on 'locations/{location}' (or it may not exist)."
        )
    return project, location


def name(text: str, what: str) -> None:
    """Refuses names that a cluster or node pool cannot have."""
    if not _NAME.fullmatch(text):
        raise bad(
            f'Invalid value for field "{what}.name": "{text}". Must be a match of regex '
            "'(?:[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)'"
        )


def labels(found: dict[str, str]) -> None:
    """Refuses labels that a resource cannot have."""
    if len(found) > 64:
        raise bad("At most 64 labels are allowed")
    for key, value in found.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise bad(f'Invalid label "{key}": "{value}"')


def cluster(spec: dict[str, Any], location: str) -> list[str]:
    """Refuses a cluster that cannot be made; returns its zones."""
    name(spec.get("name", ""), "cluster")
    labels(spec.get("resource_labels", {}))
    zones: list[str] = spec.get("locations") or zones_of(location)
    if wrong := [zone for zone in zones if zone not in zones_of(location)]:
        raise bad(f"Location {wrong[0]!r} is not in {location!r}")
    version = spec.get("initial_cluster_version", "latest")
    known = VERSIONS if "release_channel" not in spec else CHANNELS[_channel(spec)]
    if version not in ("latest", "-") and not any(
        one == version or one.startswith(f"{version}.") for one in known
    ):
        raise bad(f'Master version "{version}" is unsupported.')
    if not spec.get("node_pools") and not spec.get("initial_node_count"):
        raise bad("Cluster.initial_node_count must be greater than zero.")
    private = spec.get("private_cluster_config", {})
    if private.get("enable_private_endpoint") and not private.get("enable_private_nodes"):
        raise bad("Private endpoint requires private nodes.")
    if private and not spec.get("ip_allocation_policy", {}).get("use_ip_aliases"):
        raise bad("Private clusters must be VPC-native: set ip_allocation_policy.use_ip_aliases.")
    pools = spec.get("node_pools", [])
    if len({pool.get("name") for pool in pools}) < len(pools):
        raise bad("Node pool names must be unique.")
    for pool in pools:
        node_pool(pool, zones)
    return zones


def _channel(spec: dict[str, Any]) -> int:
    told = spec["release_channel"].get("channel", "REGULAR")
    return {"RAPID": 1, "REGULAR": 2, "STABLE": 3}.get(told, 2)


def node_pool(pool: Pool, zones: list[str]) -> None:
    """Refuses a node pool that cannot be made in these zones."""
    name(pool.get("name", ""), "node_pool")
    config = pool.get("config", {})
    labels(config.get("resource_labels", {}))
    wanted = config.get("machine_type", "e2-medium")
    for zone in pool.get("locations") or zones:
        if zone not in ZONES or wanted not in machines_in(zone):
            raise bad(f'Invalid machine type "{wanted}" in zone "{zone}": GCE_NOT_FOUND')
    machine = MACHINES[wanted]
    _capacity(pool, config)
    if machine.chips:
        _tpus(pool, machine)
    elif pool.get("placement_policy", {}).get("tpu_topology"):
        raise bad(f"TPU topology can't be specified for machine type {wanted}")
    _gpus(config, machine)
    profile = pool.get("network_config", {}).get("accelerator_network_profile")
    if profile and (profile != "auto" or not machine.name.startswith(("a3-ultra", "a4", "ct6e", "tpu7x"))):
        raise bad(
            f"Accelerator network profile {profile!r} is not supported for machine type {machine.name}."
        )
    scaling = pool.get("autoscaling", {})
    if scaling.get("enabled") and scaling.get("max_node_count") and scaling.get("total_max_node_count"):
        raise bad("At most one of max_node_count and total_max_node_count may be set.")


def policy(world: World, cluster: str, pool: Pool) -> None:
    """Refuses a node pool whose workload policy is not there, or is of another topology."""
    wanted = pool.get("placement_policy", {})
    _, project, _, location = cluster.split("/")[:4]
    region = location.rsplit("-", 1)[0] if location.count("-") > 1 else location
    if not wanted.get("policy_name"):
        return
    there = world["policies"].get(f"{project}/{region}/{wanted['policy_name']}")
    if there is None:
        raise bad(f"Resource policy {wanted['policy_name']!r} was not found in {region}.")
    if there["workloadPolicy"]["acceleratorTopology"] != wanted.get("tpu_topology"):
        raise bad("The accelerator topology of the workload policy differs from the node pool's.")


def _tpus(pool: Pool, machine: Machine) -> None:
    policy = pool.get("placement_policy", {})
    topology = policy.get("tpu_topology")
    scaling = pool.get("autoscaling", {})
    if topology and not policy.get("policy_name") and hosts_of(machine, topology) == 1:
        raise bad(
            "TPU topology can't be specified with single-host TPU slice pool; please remove the tpu_topology from the "
            "placement policy"
        )
    if machine.family == "TPU7X" and topology and not policy.get("policy_name"):
        raise bad("Multi-host TPU slice node pools of tpu7x require a workload policy.")
    if not topology:
        return
    hosts = hosts_of(machine, topology)
    if scaling.get("enabled"):
        most = scaling.get("max_node_count", 0)
        if most != hosts:
            raise bad(
                f"Maximum node count {most} is not a valid size of TPU pod slice with topology {topology}"
            )
        return
    _gang(pool.get("initial_node_count", 0), hosts)


def size(pool: Pool, count: int) -> None:
    """Refuses sizes that a pool cannot be given: the hosts of a slice come and go together."""
    topology = pool.get("placement_policy", {}).get("tpu_topology")
    if topology and count:
        _gang(count, hosts_of(_machine(pool), topology))


def _gang(count: int, hosts: int) -> None:
    if count != hosts:
        raise bad(
            f"Requested invalid target size '{count}' for a Managed Instance Group in the gang mode of size '{hosts}'."
        )


def _gpus(config: dict[str, Any], machine: Machine) -> None:
    asked = config.get("accelerators", [])
    if not machine.gpu and not asked:
        return
    if not machine.gpu or len(asked) != 1:
        raise bad(f"Machine type {machine.name} needs exactly the accelerators that belong to it.")
    if (asked[0].get("accelerator_type"), int(asked[0].get("accelerator_count", 0))) != (
        machine.gpu,
        machine.gpus,
    ):
        raise bad(f"Machine type {machine.name} has {machine.gpus} x {machine.gpu}.")


def _capacity(pool: Pool, config: dict[str, Any]) -> None:
    affinity = config.get("reservation_affinity", {})
    specific = affinity.get("consume_reservation_type") == "SPECIFIC_RESERVATION"
    if config.get("spot") and specific:
        raise bad("Spot VMs cannot consume a specific reservation.")
    if specific and (
        affinity.get("key") != "compute.googleapis.com/reservation-name" or not affinity.get("values")
    ):
        raise bad(
            "A specific reservation needs the key compute.googleapis.com/reservation-name and its name."
        )
    if not config.get("flex_start"):
        return
    if pool.get("queued_provisioning", {}).get("enabled") and MACHINES[config["machine_type"]].chips:
        raise bad("Flex start node pools don't support TPUs with queued provisioning.")
    if config.get("spot") or specific:
        raise bad("Flex start node pools can be neither spot nor use a reservation.")
    if affinity.get("consume_reservation_type") != "NO_RESERVATION":
        raise bad("Flex start node pools require reservation affinity none.")
    if pool.get("management", {}).get("auto_repair"):
        raise bad("Flex start node pools don't support node auto-repair.")
    if not pool.get("autoscaling", {}).get("enabled"):
        raise bad("Flex start node pools require autoscaling.")


def quota(world: World, project: str, region: str, pools: list[Pool]) -> None:
    """Refuses what would exceed the project's quotas."""
    if message := over_quota(world, project, region, pools):
        raise Refused("PERMISSION_DENIED", message)
    if not world["settings"]["late_quotas"] and (message := over_tpu_quota(world, region, pools)):
        raise Refused("PERMISSION_DENIED", message)


def over_quota(world: World, project: str, region: str, pools: list[Pool]) -> str:
    """Returns what the service says of too many CPUs; empty: there are enough."""
    limit = world["settings"]["quotas"].get(f"CPUS/{region}")
    if limit is None:
        return ""
    wanted = sum(_count(pool) * _machine(pool).cpus for pool in pools if not _machine(pool).chips)
    others = [_sized(one) for one in _standing(world, region)]
    used = sum(_count(one) * _machine(one).cpus for one in others if not _machine(one).chips)
    left = limit - used
    if wanted <= left:
        return ""
    return (
        f"Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '{wanted:.1f}' and is "
        f"short '{wanted - left:.1f}'. project has a quota of '{limit:.1f}' with '{left:.1f}' available. View and "
        f"manage quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}."
    )


def quotas(world: World, region: str) -> list[dict[str, Any]]:
    """Returns the region's quotas as Compute Engine tells them: of CPUs alone."""
    limit = world["settings"]["quotas"].get(f"CPUS/{region}")
    specs = [_sized(one) for one in _standing(world, region)]
    used = sum(_count(one) * _machine(one).cpus for one in specs if not _machine(one).chips)
    return [] if limit is None else [{"metric": "CPUS", "limit": float(limit), "usage": float(used)}]


def over_tpu_quota(world: World, region: str, pools: list[Pool]) -> str:
    """Returns what the service says of too many TPUs; empty: there are enough."""
    for pool in pools:
        machine = _machine(pool)
        limit = world["settings"]["quotas"].get(f"{machine.family}/{region}")
        if not machine.chips or limit is None:
            continue
        others = [_sized(one) for one in _standing(world, region) if one["spec"] is not pool]
        used = sum(
            _count(one) * _machine(one).chips for one in others if _machine(one).family == machine.family
        )
        if used + _count(pool) * machine.chips > limit:
            return (
                f"Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: {limit:.1f} in region {region}. "
                f"(dimensions: tpu_family: {machine.family})"
            )
    return ""


def stocked_out(world: World, pool: Pool, zones: list[str]) -> str:
    """Returns the zone that has no room for a pool; empty: all have."""
    out = world["settings"]["stockouts"]
    machine = _machine(pool)
    here = pool.get("locations") or zones
    for zone in here:
        if zone in out or f"{zone}/{machine.name}" in out:
            return str(zone)
    room = world["settings"]["only_room_for"]
    if room is not None and (machine.chips or machine.gpus):
        there = [
            one for one in _standing(world, "") if _machine(one["spec"]).chips or _machine(one["spec"]).gpus
        ]
        if sum(one["status"] == "RUNNING" for one in there) >= room:
            return str(here[0])
    return ""


def reservation(world: World, pool: Pool) -> str:
    """Returns what the service says of the reservation that a pool wants to use; empty: it has room."""
    affinity = pool.get("config", {}).get("reservation_affinity", {})
    if affinity.get("consume_reservation_type") != "SPECIFIC_RESERVATION":
        return ""
    wanted = affinity["values"][0]
    there = world["settings"]["reservations"]
    if wanted not in there:
        return f"Specified reservation '{wanted}' does not exist."
    used = sum(
        _count(one["spec"])
        for one in _standing(world, "")
        if one["spec"] is not pool
        and one["status"] == "RUNNING"
        and one["spec"].get("config", {}).get("reservation_affinity", {}).get("values") == [wanted]
    )
    if used + _count(pool) > there[wanted]:
        return "Insufficient reserved capacity. Contact customer support to increase your reservation."
    return ""


def _standing(world: World, region: str) -> list[dict[str, Any]]:
    """Returns every pool there is in a region (or anywhere), whatever its state."""
    return [
        pool
        for key, cluster in world["clusters"].items()
        if key.split("/")[3].startswith(region)
        for pool in cluster["pools"].values()
    ]


def _sized(stored: dict[str, Any]) -> Pool:
    """Returns what was asked for of a pool, as if it had been for the size that it has now."""
    return {**stored["spec"], "initial_node_count": stored["target"]}


def _machine(pool: Pool) -> Machine:
    return MACHINES[pool.get("config", {}).get("machine_type", "e2-standard-2")]


def _count(pool: Pool) -> int:
    return int(pool.get("initial_node_count", 0)) * max(1, len(pool.get("locations", [])))
