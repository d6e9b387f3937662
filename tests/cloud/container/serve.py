"""Serves the stand-in for GKE's API over gRPC: `python -m tests.cloud container --port 9000 --state DIR`.

Beside its state in DIR it keeps `requests.jsonl`, every call with its outcome. What it is like, and how it misbehaves,
is said with --set and --fault; both are in DIR/world.json as well, and may be changed there while it runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.cloud import container_v1
from google.protobuf import empty_pb2

from tests.cloud import lifetime, rpc
from tests.cloud.container import behind, compute, service
from tests.cloud.container.store import MUTATING, SETTINGS, Store, World
from tests.cloud.container.world import advance
from tests.cloud.faults import ACTIONS
from tests.cloud.kubernetes.releases import in_files
from tests.cloud.project import iam, memory
from tests.cloud.project.beside import serve as serve_project
from tests.cloud.rpc import Method

_SERVICE = "/google.container.v1.ClusterManager/"

# Method → (the call, reply type, what the permission to make it is called).
_CALLS: dict[str, tuple[service.Call, Any, str]] = {
    "CreateCluster": (service.create_cluster, container_v1.Operation, "container.clusters.create"),
    "GetCluster": (service.get_cluster, container_v1.Cluster, "container.clusters.get"),
    "ListClusters": (service.list_clusters, container_v1.ListClustersResponse, "container.clusters.list"),
    "UpdateCluster": (service.update_cluster, container_v1.Operation, "container.clusters.update"),
    "DeleteCluster": (service.delete_cluster, container_v1.Operation, "container.clusters.delete"),
    "SetMaintenancePolicy": (
        service.set_maintenance_policy, container_v1.Operation, "container.clusters.update",
    ),
    "SetLabels": (service.set_labels, container_v1.Operation, "container.clusters.update"),
    "CreateNodePool": (service.create_node_pool, container_v1.Operation, "container.clusters.update"),
    "GetNodePool": (service.get_node_pool, container_v1.NodePool, "container.clusters.get"),
    "ListNodePools": (service.list_node_pools, container_v1.ListNodePoolsResponse, "container.clusters.get"),
    "DeleteNodePool": (service.delete_node_pool, container_v1.Operation, "container.clusters.update"),
    "SetNodePoolSize": (service.set_node_pool_size, container_v1.Operation, "container.clusters.update"),
    "SetNodePoolAutoscaling": (
        service.set_node_pool_autoscaling, container_v1.Operation, "container.clusters.update",
    ),
    "SetNodePoolManagement": (
        service.set_node_pool_management, container_v1.Operation, "container.clusters.update",
    ),
    "UpdateNodePool": (service.update_node_pool, container_v1.Operation, "container.clusters.update"),
    "GetServerConfig": (service.get_server_config, container_v1.ServerConfig, "container.clusters.get"),
    "GetOperation": (service.get_operation, container_v1.Operation, "container.operations.get"),
    "ListOperations": (
        service.list_operations, container_v1.ListOperationsResponse, "container.operations.list",
    ),
    "CancelOperation": (service.cancel_operation, empty_pb2.Empty, "container.operations.cancel"),
}  # fmt: skip


def methods() -> dict[str, Method]:
    """Returns the methods by their full names."""
    return {
        f"{_SERVICE}{name}": Method(
            getattr(container_v1, f"{name}Request"), reply, answer, _denied(permission)
        )
        for name, (answer, reply, permission) in _CALLS.items()
    }


def _denied(permission: str) -> Callable[[Any], str]:
    def told(request: Any) -> str:
        project = (getattr(request, "name", "") or getattr(request, "parent", "")).split("/")[1]
        return f'Required "{permission}" permission(s) for "projects/{project}".'

    return told


def _epilog() -> str:
    """Returns what settings and faults there are."""
    settings = "\n".join(f"  {name} = {json.dumps(usual)}" for name, usual in SETTINGS.items())
    calls = textwrap.fill(", ".join(sorted(MUTATING)), 110, initial_indent="  ", subsequent_indent="  ")
    return f"""settings, as they are unless set (SETTINGS in tests/cloud/container/store.py and project/memory.py):
{settings}

a fault is an object with
  method   a call: one of those below, one that reads (GetCluster …), "mutating" (any of those below) or "*"
  nth      the first of its calls that is struck, from 1; times: how many from there on
  action   {", ".join(ACTIONS)}
  code, message (of an error, e.g. "UNAVAILABLE"), seconds (of a stall)
e.g. --fault '{{"method": "CreateNodePool", "action": "error", "code": "RESOURCE_EXHAUSTED", "message": "no quota"}}'

calls that change something:
{calls}
"""


def _setting(parser: argparse.ArgumentParser, told: str) -> tuple[str, Any]:
    name, _, value = told.partition("=")
    if name not in SETTINGS:
        parser.error(f"--set {told}: there is no setting {name!r}, see --help")
    try:
        return name, json.loads(value)
    except ValueError as error:
        parser.error(f"--set {told}: {value!r} is no JSON ({error})")


def _fault(parser: argparse.ArgumentParser, told: str) -> dict[str, Any]:
    try:
        fault = json.loads(told)
    except ValueError as error:
        parser.error(f"--fault {told}: it is no JSON ({error})")
    if not isinstance(fault, dict) or "method" not in fault or fault.get("action") not in ACTIONS:
        parser.error(f"--fault {told}: a fault has a method, and an action of {', '.join(ACTIONS)}")
    return {"code": "UNAVAILABLE", "message": "injected", "seconds": 1.0, **fault}


def check(world: World, authorization: str, name: str, request: Any) -> None:
    """Refuses a call of somebody who may not make it."""
    path = getattr(request, "name", "") or getattr(request, "parent", "")
    try:
        iam.check(world, iam.caller(world, authorization), "container", name, path, rpc.as_json(request))
    except memory.Refused as refused:
        raise rpc.Refused(refused.status, refused.message) from refused


def main(arguments: list[str]) -> int:
    """Serves until interrupted, or until the process that started it is gone (`--parent`)."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cloud container",
        description=__doc__,
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True, help="folder of state and request log")
    parser.add_argument("--parent", type=int, help="end when this process is gone")
    parser.add_argument(
        "--kubernetes", action="store_true", help="every cluster has a Kubernetes, whose pods run here"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=JSON", help="a setting, see below"
    )
    parser.add_argument("--fault", action="append", default=[], metavar="JSON", help="a fault, see below")
    options = parser.parse_args(arguments)
    settings = dict(_setting(parser, one) for one in options.set)
    faults = [_fault(parser, one) for one in options.fault]
    if options.kubernetes:  # a process of its own serves that: what it lacks is known now
        importlib.import_module("tests.cloud.kubernetes.serve")
    store = Store(options.state)
    with store.changing() as world:
        world["settings"] |= settings
        world["faults"] += faults
    if options.kubernetes:
        with store.changing() as world:
            world["settings"]["kubernetes"] = {"image_env": {"PYTHONPATH": str(Path.cwd())}}
    server, port = rpc.serve(rpc.Handler(store, methods(), MUTATING, advance, check), options.port)
    clusters = behind.Behind(store)
    clusters.start()
    tokens = behind.give_tokens()
    (options.state / "token_port").write_text(str(tokens))
    beside = compute.serve(store)
    (options.state / "compute").write_text(str(beside))
    project = serve_project(store)
    (options.state / "project").write_text(str(project))
    lifetime.tell_port(options.state, port)
    ports = {"CONTAINER": port, "COMPUTE": beside, "GOOGLE": project}
    told = " ".join(f"SLICEBENCH_{name}_ENDPOINT=127.0.0.1:{one}" for name, one in ports.items())
    told += f" STORAGE_EMULATOR_HOST=http://127.0.0.1:{project}"
    if options.kubernetes:
        login = behind.credentials(options.state / "credentials.json", tokens)
        told += f" GOOGLE_APPLICATION_CREDENTIALS={login.resolve()}"
    print(f"GKE stand-in: export {told} SLICEBENCH_PROJECT=proj", flush=True)
    if options.kubernetes:
        print(f"queues without github.com: slicebench env up … --set '{in_files(options.state)}'", flush=True)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    lifetime.wait_until_over(options.parent, over)
    server.stop(0)
    clusters.end()
    return 0
