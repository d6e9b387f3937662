"""Serves the stand-in for Cloud TPU over gRPC: `python -m tests.cloud tpu --port 9000 --state DIR [--hosts FILE]`.

Beside its state in DIR it keeps `requests.jsonl`, every call with its outcome. Settings and faults are changed in the
state while it runs (tests.cloud.tpu.running.Cloud does it for tests).
"""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2

from tests.cloud import lifetime, rpc
from tests.cloud.rpc import Method
from tests.cloud.tpu import service
from tests.cloud.tpu.store import Store
from tests.cloud.tpu.world import advance

_TPU = "/google.cloud.tpu.v2.Tpu/"
_OPERATIONS = "/google.longrunning.Operations/"

MUTATING = frozenset(
    {
        "CreateNode",
        "DeleteNode",
        "UpdateNode",
        "StopNode",
        "StartNode",
        "CreateQueuedResource",
        "DeleteQueuedResource",
        "ResetQueuedResource",
    }
)

# method → (request type, the call, reply type)
_CALLS: dict[str, tuple[Any, service.Call, Any]] = {
    f"{_TPU}CreateNode": (tpu_v2.CreateNodeRequest, service.create_node, operations_pb2.Operation),
    f"{_TPU}GetNode": (tpu_v2.GetNodeRequest, service.get_node, tpu_v2.Node),
    f"{_TPU}ListNodes": (tpu_v2.ListNodesRequest, service.list_nodes, tpu_v2.ListNodesResponse),
    f"{_TPU}DeleteNode": (tpu_v2.DeleteNodeRequest, service.delete_node, operations_pb2.Operation),
    f"{_TPU}UpdateNode": (tpu_v2.UpdateNodeRequest, service.update_node, operations_pb2.Operation),
    f"{_TPU}StopNode": (tpu_v2.StopNodeRequest, service.stop_node, operations_pb2.Operation),
    f"{_TPU}StartNode": (tpu_v2.StartNodeRequest, service.start_node, operations_pb2.Operation),
    f"{_TPU}GetGuestAttributes": (
        tpu_v2.GetGuestAttributesRequest,
        service.get_guest_attributes,
        tpu_v2.GetGuestAttributesResponse,
    ),
    f"{_TPU}CreateQueuedResource": (
        tpu_v2.CreateQueuedResourceRequest,
        service.create_queued_resource,
        operations_pb2.Operation,
    ),
    f"{_TPU}GetQueuedResource": (
        tpu_v2.GetQueuedResourceRequest,
        service.get_queued_resource,
        tpu_v2.QueuedResource,
    ),
    f"{_TPU}ListQueuedResources": (
        tpu_v2.ListQueuedResourcesRequest,
        service.list_queued_resources,
        tpu_v2.ListQueuedResourcesResponse,
    ),
    f"{_TPU}DeleteQueuedResource": (
        tpu_v2.DeleteQueuedResourceRequest,
        service.delete_queued_resource,
        operations_pb2.Operation,
    ),
    f"{_TPU}ListAcceleratorTypes": (
        tpu_v2.ListAcceleratorTypesRequest,
        service.list_accelerator_types,
        tpu_v2.ListAcceleratorTypesResponse,
    ),
    f"{_TPU}ListRuntimeVersions": (
        tpu_v2.ListRuntimeVersionsRequest,
        service.list_runtime_versions,
        tpu_v2.ListRuntimeVersionsResponse,
    ),
    f"{_OPERATIONS}GetOperation": (
        operations_pb2.GetOperationRequest,
        service.get_operation,
        operations_pb2.Operation,
    ),
    f"{_OPERATIONS}ListOperations": (
        operations_pb2.ListOperationsRequest,
        service.list_operations,
        operations_pb2.ListOperationsResponse,
    ),
    f"{_OPERATIONS}CancelOperation": (
        operations_pb2.CancelOperationRequest,
        service.cancel_operation,
        operations_pb2.Operation,
    ),
}


def methods() -> dict[str, Method]:
    """Returns the methods by their full names."""
    told = "Permission 'tpu.{}' denied on resource".format
    return {
        full: Method(request, reply, answer, lambda _, full=full: told(full.rsplit("/", 1)[1]))
        for full, (request, answer, reply) in _CALLS.items()
    }


def main(arguments: list[str]) -> int:
    """Serves until interrupted, or until the process that started it is gone (`--parent`)."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud tpu", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True, help="folder of state and request log")
    parser.add_argument("--hosts", type=Path, help="JSON list of hosts: address, host_key, authorized_keys")
    parser.add_argument("--parent", type=int, help="end when this process is gone")
    options = parser.parse_args(arguments)
    store = Store(options.state)
    if options.hosts:
        with store.changing() as world:
            world["hosts"] = json.loads(options.hosts.read_text())
    server, port = rpc.serve(rpc.Handler(store, methods(), MUTATING, advance), options.port)
    lifetime.tell_port(options.state, port)
    print(f"Cloud TPU stand-in: export SLICEBENCH_TPU_ENDPOINT=127.0.0.1:{port}", flush=True)
    lifetime.wait_until_over(options.parent, threading.Event())
    server.stop(0)
    return 0
