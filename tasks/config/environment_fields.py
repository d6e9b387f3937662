"""Fields of GKE's API that an environment's file says by fields of its own: passed through, they would contradict it.

Network, router, accounts, costs and what is compared later all go by the file's own fields. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tasks.config.environment_parts import ControlPlane, TpuPools

Path = tuple[str | int, ...]

_CLUSTER = {
    "network": "network.name",
    "subnetwork": "network.subnet",
    "location": "region",
    "locations": "zone",
    "ip_allocation_policy.use_ip_aliases": "network",
    "ip_allocation_policy.create_subnetwork": "network.subnet",
    "ip_allocation_policy.cluster_secondary_range_name": "network.pods_range_name",
    "ip_allocation_policy.cluster_ipv4_cidr_block": "network.pods_range",
    "ip_allocation_policy.services_secondary_range_name": "network.services_range_name",
    "ip_allocation_policy.services_ipv4_cidr_block": "network.services_range",
    "description": "cluster.description",
    "release_channel.channel": "cluster.channel",
    "private_cluster_config.enable_private_nodes": "cluster.private",
    "private_cluster_config.enable_private_endpoint": "cluster.private_endpoint",
    "master_authorized_networks_config.enabled": "cluster.authorized_networks",
    "master_authorized_networks_config.cidr_blocks": "cluster.authorized_networks",
    "workload_identity_config.workload_pool": "project",
}
_IF_SAID = {
    "initial_cluster_version": "version",
    "maintenance_policy.window.daily_maintenance_window": "maintenance",
}
"""Those that the file says only where it has such a field of `cluster`."""
_POOL = {
    "locations": "zone",
    "config.service_account": "accounts.nodes.name",
    "config.reservation_affinity": "tpu.capacity and tpu.reservations",
    "config.labels.multislice-group": "tpu.multislice_group",
    "placement_policy.tpu_topology": "tpu.topology",
    "autoscaling.enabled": "tpu.autoscaling",
}


def contradicting(cluster: ControlPlane, tpu: TpuPools) -> Iterator[tuple[Path, str]]:
    """Yields the fields passed through that the file says already: where they stand, and by what it is said."""
    said = {api: f"cluster.{own}" for api, own in _IF_SAID.items() if getattr(cluster, own) is not None}
    for part, fields, known in (("cluster", cluster.fields, _CLUSTER | said), ("tpu", tpu.fields, _POOL)):
        for path in fields:
            for own in dict.fromkeys(_said_by(path, known)):
                where = (part, "fields", path)
                yield where, f"fields: {path} is said by {own}: leave it out, or name the parts beside that"


def _said_by(path: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yields what says a field, or a part of what is put in its place as a whole."""
    for api, own in known.items():
        if path == api or api.startswith(f"{path}.") or path.startswith(f"{api}."):
            yield own
            return
