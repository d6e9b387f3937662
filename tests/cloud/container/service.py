"""The calls of google.container.v1.ClusterManager, on the stand-in's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.cloud import container_v1
from google.protobuf import empty_pb2

from tests.cloud.container import messages, rules, world
from tests.cloud.container.rules import Refused
from tests.cloud.container.store import World
from tests.cloud.project import networks

Call = Callable[[World, Any], Any]
"""Takes the world (to be changed) and a request; returns the reply or raises Refused."""


def create_cluster(state: World, request: container_v1.CreateClusterRequest) -> container_v1.Operation:
    project, location = rules.place(state, request.parent)
    spec = messages.spec_of(request.cluster)
    zones = rules.cluster(spec, location)
    key = f"{request.parent}/clusters/{spec['name']}"
    if key in state["clusters"]:
        raise Refused("ALREADY_EXISTS", f"Already exists: {key}.")
    rules.quota(state, project, _region(location), spec.get("node_pools", []))
    if state["settings"]["whole"] and (words := networks.check_cluster(state, key, spec)):
        raise rules.bad(words)
    world.new_cluster(state, key, spec, zones)
    networks.rules_of_gke(state, key, spec)
    return messages.operation_message(state, world.begin(state, key, "CREATE_CLUSTER"))


def get_cluster(state: World, request: container_v1.GetClusterRequest) -> container_v1.Cluster:
    _find(state, request.name)
    return messages.cluster_message(state, request.name)


def list_clusters(
    state: World, request: container_v1.ListClustersRequest
) -> container_v1.ListClustersResponse:
    project, location = rules.place(state, request.parent, anywhere=True)
    prefix = f"projects/{project}/locations/" + ("" if location == "-" else f"{location}/")
    out = state["settings"]["unreachable"]
    found = [
        messages.cluster_message(state, key)
        for key, one in sorted(state["clusters"].items())
        if key.startswith(prefix) and not set(one["zones"]) & set(out)
    ]
    return container_v1.ListClustersResponse(clusters=found, missing_zones=out)


def delete_cluster(state: World, request: container_v1.DeleteClusterRequest) -> container_v1.Operation:
    cluster = _find(state, request.name)
    _deletable(state, request.name)
    world.refuse_if_busy(state, request.name)
    cluster["status"] = "STOPPING"
    return messages.operation_message(state, world.begin(state, request.name, "DELETE_CLUSTER"))


def update_cluster(state: World, request: container_v1.UpdateClusterRequest) -> container_v1.Operation:
    cluster = _find(state, request.name)
    wanted = messages.spec_of(request.update)
    mark = wanted.pop("etag", "")
    if len(wanted) != 1:
        raise rules.bad("Must specify exactly one update.")
    world.refuse_if_busy(state, request.name)
    _refuse_stale(state, mark, messages.mark_of(cluster))
    for name, value in wanted.items():
        part = name.removeprefix("desired_").removeprefix("cluster_")
        partly = part in (
            "addons_config",
            "monitoring_config",
            "logging_config",
            "control_plane_endpoints_config",
        )
        cluster["spec"][part] = {**cluster["spec"].get(part, {}), **value} if partly else value
    return messages.operation_message(state, world.begin(state, request.name, "UPDATE_CLUSTER"))


def _refuse_stale(state: World, mark: str, now: str) -> None:
    """Refuses who read a cluster or pool before somebody else changed it; without a mark nobody is held to anything."""
    faster = state["settings"]["faster_updates"] > 0
    state["settings"]["faster_updates"] -= faster
    if mark and (faster or mark != now):
        raise Refused("ABORTED", f"The etag {mark} does not match the current etag {now}.")


def set_maintenance_policy(
    state: World, request: container_v1.SetMaintenancePolicyRequest
) -> container_v1.Operation:
    if not (request.project_id and request.zone and request.cluster_id):
        raise rules.bad("Must specify the project, the zone and the cluster.")
    cluster = _find(state, request.name)
    world.refuse_if_busy(state, request.name)
    policy = messages.spec_of(request.maintenance_policy)
    faster = state["settings"]["faster_updates"] > 0
    state["settings"]["faster_updates"] -= faster
    if faster or policy.pop("resource_version", "") != messages.version_of_policy(cluster["spec"]):
        raise Refused("ABORTED", "The maintenance policy was changed since it was read.")
    cluster["spec"]["maintenance_policy"] = policy
    return messages.operation_message(state, world.begin(state, request.name, "UPDATE_CLUSTER"))


def set_labels(state: World, request: container_v1.SetLabelsRequest) -> container_v1.Operation:
    cluster = _find(state, request.name)
    world.refuse_if_busy(state, request.name)
    if request.label_fingerprint != cluster["fingerprint"]:
        raise Refused("FAILED_PRECONDITION", "Labels could not be set due to fingerprint mismatch.")
    labels = dict(request.resource_labels)
    rules.labels(labels)
    cluster["spec"]["resource_labels"] = labels
    state["next"] += 1
    cluster["fingerprint"] = f"{state['next']:08x}"
    return messages.operation_message(state, world.begin(state, request.name, "SET_LABELS"))


def create_node_pool(state: World, request: container_v1.CreateNodePoolRequest) -> container_v1.Operation:
    cluster = _find(state, request.parent)
    spec = messages.spec_of(request.node_pool)
    rules.node_pool(spec, cluster["zones"])
    rules.policy(state, request.parent, spec)
    if spec["name"] in cluster["pools"]:
        raise Refused("ALREADY_EXISTS", f"Already exists: {request.parent}/nodePools/{spec['name']}.")
    if cluster["status"] not in ("RUNNING", "RECONCILING", "DEGRADED", "PROVISIONING"):
        raise Refused("FAILED_PRECONDITION", f"Cluster {request.parent} is in state {cluster['status']}.")
    world.refuse_if_busy(state, request.parent)
    project, location = request.parent.split("/")[1], request.parent.split("/")[3]
    rules.quota(state, project, _region(location), [spec])
    if state["settings"]["whole"] and (words := networks.check_account(state, spec)):
        raise rules.bad(words)
    world.new_pool(cluster, spec)
    cluster["status"] = "RECONCILING"
    name = world.begin(state, request.parent, "CREATE_NODE_POOL", spec["name"])
    return messages.operation_message(state, name)


def get_node_pool(state: World, request: container_v1.GetNodePoolRequest) -> container_v1.NodePool:
    key, name, _ = _find_pool(state, request.name)
    return messages.pool_message(state, key, name)


def list_node_pools(
    state: World, request: container_v1.ListNodePoolsRequest
) -> container_v1.ListNodePoolsResponse:
    cluster = _find(state, request.parent)
    pools = [messages.pool_message(state, request.parent, name) for name in cluster["pools"]]
    return container_v1.ListNodePoolsResponse(node_pools=pools)


def delete_node_pool(state: World, request: container_v1.DeleteNodePoolRequest) -> container_v1.Operation:
    key, name, pool = _find_pool(state, request.name)
    _deletable(state, request.name)
    world.refuse_if_busy(state, key)
    pool["status"] = "STOPPING"
    state["clusters"][key]["status"] = "RECONCILING"
    return messages.operation_message(state, world.begin(state, key, "DELETE_NODE_POOL", name))


def set_node_pool_size(state: World, request: container_v1.SetNodePoolSizeRequest) -> container_v1.Operation:
    key, name, pool = _find_pool(state, request.name)
    world.refuse_if_busy(state, key)
    rules.size(pool["spec"], request.node_count)
    pool["status"] = state["clusters"][key]["status"] = "RECONCILING"
    begun = world.begin(state, key, "SET_NODE_POOL_SIZE", name, size=request.node_count)
    return messages.operation_message(state, begun)


def set_node_pool_autoscaling(
    state: World, request: container_v1.SetNodePoolAutoscalingRequest
) -> container_v1.Operation:
    return _change_pool(state, request.name, {"autoscaling": messages.spec_of(request.autoscaling)})


def set_node_pool_management(
    state: World, request: container_v1.SetNodePoolManagementRequest
) -> container_v1.Operation:
    return _change_pool(state, request.name, {"management": messages.spec_of(request.management)})


def update_node_pool(state: World, request: container_v1.UpdateNodePoolRequest) -> container_v1.Operation:
    wanted = {key: value for key, value in messages.spec_of(request).items() if key not in ("name", "etag")}
    machine = wanted.keys() & {"machine_type", "disk_type", "disk_size_gb"}
    if not wanted or (machine and wanted.keys() - machine):
        raise rules.bad("Must specify exactly one update.")
    if "labels" in wanted:
        wanted["labels"] = wanted["labels"].get("labels", {})
    key, _, pool = _find_pool(state, request.name)
    world.refuse_if_busy(state, key)
    _refuse_stale(state, request.etag, messages.mark_of(pool))
    if machine and pool["spec"].get("placement_policy", {}).get("tpu_topology"):
        raise rules.bad("Machines of a TPU slice node pool cannot be changed.")
    return _change_pool(state, request.name, {"config": {**pool["spec"].get("config", {}), **wanted}})


def _change_pool(state: World, full: str, fields: dict[str, Any]) -> container_v1.Operation:
    key, name, pool = _find_pool(state, full)
    world.refuse_if_busy(state, key)
    pool["spec"].update(fields)
    pool["status"] = state["clusters"][key]["status"] = "RECONCILING"
    return messages.operation_message(state, world.begin(state, key, "UPDATE_CLUSTER", name))


def get_server_config(
    state: World, request: container_v1.GetServerConfigRequest
) -> container_v1.ServerConfig:
    rules.place(state, "/".join(request.name.split("/")[:4]))
    return messages.server_config()


def get_operation(state: World, request: container_v1.GetOperationRequest) -> container_v1.Operation:
    rules.place(state, "/".join(request.name.split("/")[:4]))
    if request.name not in state["operations"]:
        raise Refused("NOT_FOUND", f"Not found: {request.name}.")
    return messages.operation_message(state, request.name)


def list_operations(
    state: World, request: container_v1.ListOperationsRequest
) -> container_v1.ListOperationsResponse:
    project, location = rules.place(state, request.parent, anywhere=True)
    prefix = f"projects/{project}/locations/" + ("" if location == "-" else f"{location}/")
    found = [
        messages.operation_message(state, name) for name in state["operations"] if name.startswith(prefix)
    ]
    return container_v1.ListOperationsResponse(operations=found)


def cancel_operation(state: World, request: container_v1.CancelOperationRequest) -> empty_pb2.Empty:
    raise Refused("FAILED_PRECONDITION", f"Operation {request.name} cannot be cancelled.")


def _find(state: World, key: str) -> dict[str, Any]:
    rules.place(state, "/".join(key.split("/")[:4]))
    found: dict[str, Any] | None = state["clusters"].get(key)
    if found is None:
        raise Refused("NOT_FOUND", f"Not found: {key}.")
    return found


def _find_pool(state: World, full: str) -> tuple[str, str, dict[str, Any]]:
    key, _, name = full.partition("/nodePools/")
    found = _find(state, key)["pools"].get(name)
    if found is None:
        raise Refused("NOT_FOUND", f"Not found: {full}.")
    return key, name, found


def _deletable(state: World, full: str) -> None:
    if full.rsplit("/", 1)[1] in state["settings"]["undeletable"]:
        raise Refused("FAILED_PRECONDITION", "Cannot delete: deletion protection is enabled.")


def _region(location: str) -> str:
    return location.rsplit("-", 1)[0] if location.count("-") > 1 else location
