"""Serves the stand-in for GKE's API over gRPC: `python -m tests.cloud container --port 9000 --state DIR`.

Beside its state in DIR it keeps `requests.jsonl`, every call with its outcome. Settings and faults are changed in the
state while it runs (tests.cloud.container.running.Gke does it for tests).
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.cloud import container_v1
from google.protobuf import empty_pb2, json_format

from tests.cloud.container import behind, compute, faults, service
from tests.cloud.container.rules import Refused
from tests.cloud.container.store import Store
from tests.cloud.container.world import advance
from tests.cloud.tpu.faults import kill_peer
from tests.cloud.tpu.serve import WorldIsGone

_SERVICE = "/google.container.v1.ClusterManager/"

# Method → (the call, reply type, what the permission to make it is called).
_CALLS: dict[str, tuple[service.Call, Any, str]] = {
    "CreateCluster": (service.create_cluster, container_v1.Operation, "container.clusters.create"),
    "GetCluster": (service.get_cluster, container_v1.Cluster, "container.clusters.get"),
    "ListClusters": (service.list_clusters, container_v1.ListClustersResponse, "container.clusters.list"),
    "DeleteCluster": (service.delete_cluster, container_v1.Operation, "container.clusters.delete"),
    "SetLabels": (service.set_labels, container_v1.Operation, "container.clusters.update"),
    "CreateNodePool": (service.create_node_pool, container_v1.Operation, "container.clusters.update"),
    "GetNodePool": (service.get_node_pool, container_v1.NodePool, "container.clusters.get"),
    "ListNodePools": (service.list_node_pools, container_v1.ListNodePoolsResponse, "container.clusters.get"),
    "DeleteNodePool": (service.delete_node_pool, container_v1.Operation, "container.clusters.update"),
    "SetNodePoolSize": (service.set_node_pool_size, container_v1.Operation, "container.clusters.update"),
    "GetServerConfig": (service.get_server_config, container_v1.ServerConfig, "container.clusters.get"),
    "GetOperation": (service.get_operation, container_v1.Operation, "container.operations.get"),
    "ListOperations": (
        service.list_operations, container_v1.ListOperationsResponse, "container.operations.list",
    ),
    "CancelOperation": (service.cancel_operation, empty_pb2.Empty, "container.operations.cancel"),
}  # fmt: skip


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the call by the full name of its method."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """See grpc.GenericRpcHandler."""
        method = details.method.removeprefix(_SERVICE)
        if method not in _CALLS:
            return None
        _, reply, _ = _CALLS[method]
        return grpc.unary_unary_rpc_method_handler(
            self._answer(method),
            request_deserializer=getattr(container_v1, f"{method}Request").deserialize,
            response_serializer=getattr(reply, "serialize", None) or reply.SerializeToString,
        )

    def _answer(self, method: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            fault, born = faults.due(self._store, method)
            action = fault.get("action")
            entry = {
                "method": method,
                "request": json_format.MessageToDict(
                    type(request).pb(request), preserving_proto_field_name=True
                ),
                "mutating": method in faults.MUTATING,
                "fault": action,
            }
            if action == "kill_before":
                self._store.log(**entry, outcome="never", pid=kill_peer(context.peer()))
                context.abort(grpc.StatusCode.CANCELLED, "the caller is dead")
            if action == "error":
                self._store.log(**entry, outcome=fault["code"])
                context.abort(grpc.StatusCode[fault["code"]], fault.get("message", "injected"))
            if action == "stall":
                time.sleep(fault["seconds"])
            try:
                reply = self._call(method, request, born)
            except WorldIsGone:
                context.abort(grpc.StatusCode.CANCELLED, "the world that was asked is no more")
            except Refused as refused:
                self._store.log(**entry, outcome=refused.code, message=refused.message)
                context.abort(grpc.StatusCode[refused.code], refused.message)
            pid = kill_peer(context.peer()) if action == "kill_after" else None
            self._store.log(**entry, outcome="OK", pid=pid)
            if action == "lose_reply":
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            return reply

        return answer

    def _call(self, method: str, request: Any, born: int) -> Any:
        call, _, permission = _CALLS[method]
        with self._store.changing() as world:
            if world["born"] != born:  # a test reset it while this call was stalled
                raise WorldIsGone
            if method in world["settings"]["denied"]:
                project = (getattr(request, "name", "") or getattr(request, "parent", "")).split("/")[1]
                raise Refused(
                    "PERMISSION_DENIED", f'Required "{permission}" permission(s) for "projects/{project}".'
                )
            advance(world, time.time())
            reply = call(world, request)
            advance(world, time.time())
            return reply


def serve(store: Store, port: int) -> tuple[grpc.Server, int]:
    """Starts serving on loopback; returns the server and its port (`port` 0: any free one)."""
    server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((Handler(store),))
    bound: int = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


def main(arguments: list[str]) -> int:
    """Serves until interrupted, or until the process that started it is gone (`--parent`)."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud container", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True, help="folder of state and request log")
    parser.add_argument("--parent", type=int, help="end when this process is gone")
    options = parser.parse_args(arguments)
    store = Store(options.state)
    server, port = serve(store, options.port)
    clusters = behind.Behind(store)
    clusters.start()
    (options.state / "token_port").write_text(str(behind.give_tokens()))
    beside = compute.serve(store)
    (options.state / "compute").write_text(str(beside))
    (options.state / "port.new").write_text(str(port))
    (options.state / "port.new").rename(options.state / "port")  # whoever sees it can read it
    told = f"SLICEBENCH_CONTAINER_ENDPOINT=127.0.0.1:{port} SLICEBENCH_COMPUTE_ENDPOINT=127.0.0.1:{beside}"
    print(f"GKE stand-in: export {told}", flush=True)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    try:
        while options.parent is None or os.getppid() == options.parent:
            if over.wait(0.5):
                break
    except KeyboardInterrupt:
        pass
    server.stop(0)
    clusters.end()
    return 0
