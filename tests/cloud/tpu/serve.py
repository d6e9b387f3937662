"""Serves the stand-in for Cloud TPU over gRPC: `python -m tests.cloud tpu --port 9000 --state DIR [--hosts FILE]`.

Beside its state in DIR it keeps `requests.jsonl`, every call with its outcome. Settings and faults are changed in the
state while it runs (tests.cloud.tpu.running.Cloud does it for tests).
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf import json_format

from tests.cloud.tpu import faults, service
from tests.cloud.tpu.rules import Refused
from tests.cloud.tpu.store import Store
from tests.cloud.tpu.world import advance

_TPU = "/google.cloud.tpu.v2.Tpu/"
_OPERATIONS = "/google.longrunning.Operations/"

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


class WorldIsGone(Exception):
    """What a call was asked of was reset before it could be answered."""


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the call by the full name of its method."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """See grpc.GenericRpcHandler."""
        if details.method not in _CALLS:
            return None
        request, call, reply = _CALLS[details.method]
        return grpc.unary_unary_rpc_method_handler(
            self._answer(details.method.rsplit("/", 1)[1], call),
            request_deserializer=getattr(request, "deserialize", None) or request.FromString,
            response_serializer=getattr(reply, "serialize", None) or reply.SerializeToString,
        )

    def _answer(self, method: str, call: service.Call) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            told = _as_json(request)
            fault, born = faults.due(self._store, method)
            action = fault.get("action")
            entry = {
                "method": method,
                "request": told,
                "mutating": method in faults.MUTATING,
                "fault": action,
            }
            if action == "kill_before":
                self._store.log(**entry, outcome="never", pid=faults.kill_peer(context.peer()))
                context.abort(grpc.StatusCode.CANCELLED, "the caller is dead")
            if action == "error":
                self._store.log(**entry, outcome=fault["code"])
                context.abort(grpc.StatusCode[fault["code"]], fault.get("message", "injected"))
            if action == "stall":
                time.sleep(fault["seconds"])
            try:
                reply = self._call(method, call, request, born)
            except WorldIsGone:
                context.abort(grpc.StatusCode.CANCELLED, "the world that was asked is no more")
            except Refused as refused:
                self._store.log(**entry, outcome=refused.code, message=refused.message)
                context.abort(grpc.StatusCode[refused.code], refused.message)
            pid = faults.kill_peer(context.peer()) if action == "kill_after" else None
            self._store.log(**entry, outcome="OK", pid=pid)
            if action == "lose_reply":
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            return reply

        return answer

    def _call(self, method: str, call: service.Call, request: Any, born: int) -> Any:
        with self._store.changing() as world:
            if world["born"] != born:  # a test reset it while this call was stalled
                raise WorldIsGone
            if method in world["settings"]["denied"]:
                raise Refused("PERMISSION_DENIED", f"Permission 'tpu.{method}' denied on resource")
            advance(world, time.time())
            reply = call(world, request)
            advance(world, time.time())
            return reply


def _as_json(request: Any) -> Any:
    raw = type(request).pb(request) if hasattr(type(request), "pb") else request
    return json_format.MessageToDict(raw, preserving_proto_field_name=True)


def serve(store: Store, port: int) -> tuple[grpc.Server, int]:
    """Starts serving on loopback; returns the server and its port (`port` 0: any free one)."""
    server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((Handler(store),))
    bound: int = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


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
    server, port = serve(store, options.port)
    (options.state / "port.new").write_text(str(port))
    (options.state / "port.new").rename(options.state / "port")  # whoever sees it can read it
    print(f"Cloud TPU stand-in: export SLICEBENCH_TPU_ENDPOINT=127.0.0.1:{port}", flush=True)
    try:
        while options.parent is None or os.getppid() == options.parent:
            threading.Event().wait(0.5)
    except KeyboardInterrupt:
        pass
    server.stop(0)
    return 0
