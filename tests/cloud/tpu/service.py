"""The calls of google.cloud.tpu.v2.Tpu and of google.longrunning.Operations, on the stand-in's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format

from tests.cloud.tpu import messages, rules, world
from tests.cloud.tpu.catalog import KINDS, RUNTIMES, ZONES
from tests.cloud.tpu.rules import Refused
from tests.cloud.tpu.store import World

Call = Callable[[World, Any], Any]
"""Takes the world (to be changed) and a request; returns the reply or raises Refused."""

_UPDATABLE = {"description", "labels", "tags", "metadata", "data_disks"}


def create_node(state: World, request: tpu_v2.CreateNodeRequest) -> operations_pb2.Operation:
    project, zone = rules.place(state, request.parent)
    rules.identifier(request.node_id)
    kind = rules.check_node(request.node, zone, queued=False)
    name = f"{request.parent}/nodes/{request.node_id}"
    if name in state["nodes"]:
        raise Refused("ALREADY_EXISTS", f"Resource '{name}' already exists")
    spot = request.node.scheduling_config.spot or request.node.scheduling_config.preemptible
    rules.check_quota(state, zone, kind, 1, spot)
    world.new_node(state, name, zone, kind.name, tpu_v2.Node.to_dict(request.node), time.time())
    return messages.operation_message(state, world.new_operation(state, project, zone, name, "create"))


def get_node(state: World, request: tpu_v2.GetNodeRequest) -> tpu_v2.Node:
    _find(state, "nodes", request.name)
    return messages.node_message(state, request.name)


def list_nodes(state: World, request: tpu_v2.ListNodesRequest) -> tpu_v2.ListNodesResponse:
    names, token, unreachable = _page(state, "nodes", request)
    nodes = [messages.node_message(state, name) for name in names]
    return tpu_v2.ListNodesResponse(nodes=nodes, next_page_token=token, unreachable=unreachable)


def delete_node(state: World, request: tpu_v2.DeleteNodeRequest) -> operations_pb2.Operation:
    node = _find(state, "nodes", request.name)
    _deletable(state, request.name, node["state"])
    queued = state["queued"].get(node["queued"] or "")
    if queued and queued["state"] in ("ACTIVE", "PROVISIONING"):
        queued.update(state="SUSPENDING", due=time.time() + state["settings"]["suspend_s"], initiator="USER")
    node["state"], node["due"] = "DELETING", time.time() + state["settings"]["delete_s"]
    world.finish(state, request.name, "create", (1, "The operation was cancelled."))
    return _operation(state, request.name, "delete")


def update_node(state: World, request: tpu_v2.UpdateNodeRequest) -> operations_pb2.Operation:
    name = request.node.name
    node = _find(state, "nodes", name)
    fields = list(request.update_mask.paths)
    wrong = [field for field in fields if field not in _UPDATABLE]
    if wrong or not fields:
        raise rules.bad(
            f"update_mask may name {', '.join(sorted(_UPDATABLE))}, not {', '.join(wrong) or 'nothing'}"
        )
    if world.busy(state, name):
        raise Refused("ABORTED", f"Resource '{name}' is the subject of a conflicting operation")
    if node["state"] != "READY":
        raise Refused("FAILED_PRECONDITION", f"Resource '{name}' is not in state READY but {node['state']}")
    for field in fields:
        node["spec"][field] = tpu_v2.Node.to_dict(request.node)[field]
    world.push_keys(state, node)
    return _operation(state, name, "update", time.time() + state["settings"]["update_s"])


def stop_node(state: World, request: tpu_v2.StopNodeRequest) -> operations_pb2.Operation:
    return _switch(state, request.name, "READY", "STOPPING", "stop")


def start_node(state: World, request: tpu_v2.StartNodeRequest) -> operations_pb2.Operation:
    return _switch(state, request.name, "STOPPED", "STARTING", "start")


def _switch(state: World, name: str, wanted: str, then: str, verb: str) -> operations_pb2.Operation:
    node = _find(state, "nodes", name)
    if node["queued"]:
        raise Refused(
            "FAILED_PRECONDITION", f"Resource '{name}' belongs to a queued resource: it cannot {verb}"
        )
    if node["state"] != wanted:
        raise Refused(
            "FAILED_PRECONDITION", f"Resource '{name}' is not in state {wanted} but {node['state']}"
        )
    node["state"], node["due"] = then, time.time() + state["settings"]["update_s"]
    return _operation(state, name, verb)


def get_guest_attributes(
    state: World, request: tpu_v2.GetGuestAttributesRequest
) -> tpu_v2.GetGuestAttributesResponse:
    node = _find(state, "nodes", request.name)
    if node["state"] != "READY":
        raise Refused("FAILED_PRECONDITION", f"Resource '{request.name}' is not in state READY")
    return messages.guest_attributes(state, request.name, request.query_path, list(request.worker_ids))


def create_queued_resource(
    state: World, request: tpu_v2.CreateQueuedResourceRequest
) -> operations_pb2.Operation:
    project, zone = rules.place(state, request.parent)
    queued, queued_id = request.queued_resource, request.queued_resource_id
    rules.queued_identifier(queued_id)
    specs = rules.check_queued(state, queued, queued_id, zone)
    name = f"{request.parent}/queuedResources/{queued_id}"
    if name in state["queued"]:
        raise Refused("ALREADY_EXISTS", f"Resource '{name}' already exists")
    for spec in specs:
        node_name = f"{request.parent}/nodes/{spec['id']}"
        if node_name in state["nodes"]:
            raise Refused("ALREADY_EXISTS", f"Resource '{node_name}' already exists")
    rules.check_quota(state, zone, KINDS[specs[0]["kind"]], len(specs), "spot" in queued)
    begin, until = rules.window(queued)
    now = time.time()
    state["queued"][name] = {
        "zone": zone,
        "specs": specs,
        "spec": json_format.MessageToDict(tpu_v2.QueuedResource.pb(queued)),
        "state": "ACCEPTED",
        "initiator": "STATE_INITIATOR_UNSPECIFIED",
        "created": now,
        "due": now + state["settings"]["accepted_s"],
        "begin": begin,
        "until": until,
        "error": None,
    }
    return messages.operation_message(state, world.new_operation(state, project, zone, name, "create"))


def get_queued_resource(state: World, request: tpu_v2.GetQueuedResourceRequest) -> tpu_v2.QueuedResource:
    _find(state, "queued", request.name)
    return messages.queued_message(state, request.name)


def list_queued_resources(
    state: World, request: tpu_v2.ListQueuedResourcesRequest
) -> tpu_v2.ListQueuedResourcesResponse:
    names, token, unreachable = _page(state, "queued", request)
    found = [messages.queued_message(state, name) for name in names]
    return tpu_v2.ListQueuedResourcesResponse(
        queued_resources=found, next_page_token=token, unreachable=unreachable
    )


def delete_queued_resource(
    state: World, request: tpu_v2.DeleteQueuedResourceRequest
) -> operations_pb2.Operation:
    queued = _find(state, "queued", request.name)
    _deletable(state, request.name, queued["state"])
    nodes = [node for node in state["nodes"].values() if node["queued"] == request.name]
    free = ("ACCEPTED", "WAITING_FOR_RESOURCES", "FAILED", "SUSPENDED")
    if not request.force and nodes and queued["state"] not in free:
        raise Refused(
            "FAILED_PRECONDITION",
            f"Resource '{request.name}' is {queued['state']} and has nodes: delete them first, or use force",
        )
    due = time.time() + state["settings"]["delete_s"]
    queued["state"], queued["due"] = "DELETING", due
    for node in nodes:
        node["state"], node["due"] = "DELETING", due
    return _operation(state, request.name, "delete")


def list_accelerator_types(
    state: World, request: tpu_v2.ListAcceleratorTypesRequest
) -> tpu_v2.ListAcceleratorTypesResponse:
    project, zone = rules.place(state, request.parent, any_zone=True)
    found = [one for each in (ZONES if zone == "-" else [zone]) for one in messages.types_in(each, project)]
    return tpu_v2.ListAcceleratorTypesResponse(accelerator_types=found)


def list_runtime_versions(
    state: World, request: tpu_v2.ListRuntimeVersionsRequest
) -> tpu_v2.ListRuntimeVersionsResponse:
    rules.place(state, request.parent)
    found = [
        tpu_v2.RuntimeVersion(name=f"{request.parent}/runtimeVersions/{one}", version=one) for one in RUNTIMES
    ]
    return tpu_v2.ListRuntimeVersionsResponse(runtime_versions=found)


def get_operation(state: World, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
    _find(state, "operations", request.name)
    return messages.operation_message(state, request.name)


def list_operations(
    state: World, request: operations_pb2.ListOperationsRequest
) -> operations_pb2.ListOperationsResponse:
    names = [name for name in state["operations"] if name.startswith(f"{request.name}/operations/")]
    begin, size = int(request.page_token or 0), request.page_size or state["settings"]["page"]
    return operations_pb2.ListOperationsResponse(
        operations=[messages.operation_message(state, one) for one in names[begin : begin + size]],
        next_page_token=str(begin + size) if begin + size < len(names) else "",
    )


def cancel_operation(state: World, request: operations_pb2.CancelOperationRequest) -> empty_pb2.Empty:
    raise Refused("UNIMPLEMENTED", "Operations of Cloud TPU cannot be cancelled")


def _find(state: World, table: str, name: str) -> dict[str, Any]:
    rules.place(state, "/".join(name.split("/")[:4]))
    found: dict[str, Any] | None = state[table].get(name)
    if found is None:
        raise Refused("NOT_FOUND", f"Resource '{name}' was not found")
    return found


def _deletable(state: World, name: str, now_in: str) -> None:
    if name.rsplit("/", 1)[1] in state["settings"]["undeletable"]:
        raise Refused(
            "FAILED_PRECONDITION", f"Resource '{name}' cannot be deleted now: maintenance is under way"
        )
    if now_in == "DELETING":
        raise Refused("ABORTED", f"Resource '{name}' is the subject of a conflicting operation")


def _operation(state: World, target: str, verb: str, due: float | None = None) -> operations_pb2.Operation:
    project, zone = target.split("/")[1], target.split("/")[3]
    return messages.operation_message(state, world.new_operation(state, project, zone, target, verb, due))


def _page(state: World, table: str, request: Any) -> tuple[list[str], str, list[str]]:
    """Returns the names on one page, the token of the next, and the zones that could not be asked."""
    project, zone = rules.place(state, request.parent, any_zone=True)
    out = state["settings"]["unreachable"]
    prefix = f"projects/{project}/locations/" + ("" if zone == "-" else f"{zone}/")
    names = sorted(
        name for name, one in state[table].items() if name.startswith(prefix) and one["zone"] not in out
    )
    begin, size = int(request.page_token or 0), request.page_size or state["settings"]["page"]
    following = str(begin + size) if begin + size < len(names) else ""
    unreachable = [f"projects/{project}/locations/{one}" for one in out if zone in ("-", one)]
    return names[begin : begin + size], following, unreachable
