"""How things change in the stand-in with time: operations begin, end and have their effect, or fail and say why."""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.container import rules
from tests.cloud.container.store import World
from tests.cloud.project import networks

_BUSY = {
    "CREATE_CLUSTER": "creating cluster",
    "DELETE_CLUSTER": "deleting cluster",
    "CREATE_NODE_POOL": "creating a node pool for cluster",
    "DELETE_NODE_POOL": "deleting a node pool for cluster",
}
RESOURCE_EXHAUSTED, INVALID_ARGUMENT, INTERNAL = 8, 3, 13


def advance(world: World, now: float) -> None:
    """Brings everything to where it stands at `now`."""
    for operation in world["operations"].values():
        if operation["status"] == "PENDING" and operation["begins"] <= now:
            operation["status"] = "RUNNING"
        due = operation["due"] <= now and operation["type"] not in world["settings"]["hold"]
        if operation["type"] == "CREATE_CLUSTER" and operation["cluster"] in world["clusters"]:
            due = due and _is_backed(world, operation["cluster"])
        if operation["status"] == "RUNNING" and due:
            _finish(world, operation, now)
            operation["status"], operation["ended"] = "DONE", now


def begin(world: World, cluster: str, kind: str, pool: str = "", **more: Any) -> str:
    """Adds an operation on a cluster, or on a node pool of it; returns its name."""
    settings, now = world["settings"], time.time()
    usual = {
        "CREATE_CLUSTER": settings["create_cluster_s"],
        "CREATE_NODE_POOL": settings["create_pool_s"],
        "DELETE_CLUSTER": settings["delete_s"],
        "DELETE_NODE_POOL": settings["delete_s"],
    }
    world["next"] += 1
    location = "/".join(cluster.split("/")[:4])
    name = f"{location}/operations/operation-{int(now * 1000)}-{world['next']:08x}"
    world["operations"][name] = {
        "cluster": cluster,
        "pool": pool,
        "type": kind,
        "status": "PENDING",
        "begins": now + settings["pending_s"],
        "due": now + settings["slow"].get(kind, usual.get(kind, settings["change_s"])),
        "started": now,
        "ended": None,
        "error": None,
        "conditions": [],
        **more,
    }
    return name


def refuse_if_busy(world: World, cluster: str) -> None:
    """Refuses another operation on a cluster that has as many as may be under way at once."""
    under_way = [
        (name, one)
        for name, one in world["operations"].items()
        if one["cluster"] == cluster and one["status"] != "DONE"
    ]
    at_once = world["settings"]["operations_at_once"]
    if len(under_way) < at_once:
        return
    short = cluster.rsplit("/", 1)[1]
    if at_once > 1:
        raise rules.Refused(
            "RESOURCE_EXHAUSTED",
            f'Too many operations: cluster "{short}" hits the concurrent operations quota {at_once}, please try again '
            "later.",
        )
    name, one = under_way[0]
    operation = name.rsplit("/", 1)[1]
    if one["type"] in ("CREATE_NODE_POOL", "DELETE_NODE_POOL"):
        doing = _BUSY[one["type"]]
        text = (
            f"Operation {operation} is currently {doing} {short}. Please wait and try again once it is done."
        )
    else:
        text = f"Cluster is running incompatible operation {operation}."
    raise rules.Refused("FAILED_PRECONDITION", text)


def new_cluster(world: World, key: str, spec: dict[str, Any], zones: list[str]) -> dict[str, Any]:
    """Adds a cluster that is being created, with its first pools."""
    world["next"] += 1
    number = world["next"]
    cluster: dict[str, Any] = {
        "spec": {name: value for name, value in spec.items() if name != "node_pools"},
        "zones": zones,
        "status": "PROVISIONING",
        "message": "",
        "conditions": [],
        "id": f"{number:08x}{abs(hash((key, world['born']))) % 16**24:024x}",
        "endpoint": f"203.0.113.{number % 250}",
        "created": time.time(),
        "fingerprint": f"{number:08x}",
        "pools": {},
    }
    world["clusters"][key] = cluster
    for pool in spec.get("node_pools", []):
        new_pool(cluster, pool)
    return cluster


def new_pool(cluster: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Adds a node pool that is being created."""
    pool = {"spec": spec, "status": "PROVISIONING", "message": "", "conditions": [], "nodes": 0}
    pool["target"] = spec.get("initial_node_count", 0)  # which stays as it was, whatever becomes of the size
    cluster["pools"][spec["name"]] = pool
    return pool


def _is_backed(world: World, key: str) -> bool:
    """Whether what is behind a cluster is there, where something is to be: see `behind`."""
    return world["settings"]["kubernetes"] is None or "kubernetes" in world["clusters"][key]


def _finish(world: World, operation: dict[str, Any], now: float) -> None:
    cluster = world["clusters"].get(operation["cluster"])
    if cluster is None:
        return
    match operation["type"]:
        case "CREATE_CLUSTER":
            _cluster_made(world, operation, cluster)
        case "DELETE_CLUSTER":
            del world["clusters"][operation["cluster"]]
            networks.forget_rules(world, operation["cluster"])
        case "CREATE_NODE_POOL":
            pool = cluster["pools"][operation["pool"]]
            operation["error"] = _pool_made(world, operation, cluster, pool)
        case "DELETE_NODE_POOL":
            cluster["pools"].pop(operation["pool"], None)
        case "SET_NODE_POOL_SIZE":
            pool = cluster["pools"][operation["pool"]]
            pool["target"] = pool["nodes"] = operation["size"]
            pool["status"] = "RUNNING"
        case "UPDATE_CLUSTER" if operation["pool"]:
            cluster["pools"][operation["pool"]]["status"] = "RUNNING"
    if operation["cluster"] in world["clusters"] and cluster["status"] == "RECONCILING":
        cluster["status"] = "RUNNING"


def _cluster_made(world: World, operation: dict[str, Any], cluster: dict[str, Any]) -> None:
    errors = [_pool_made(world, operation, cluster, pool) for pool in cluster["pools"].values()]
    error = next((one for one in errors if one), None)
    if operation["cluster"].rsplit("/", 1)[1] in world["settings"]["failing_clusters"]:
        error = [
            INTERNAL,
            "All cluster resources were brought up, but: only 0 nodes out of 1 have registered.",
        ]
    cluster["status"] = "ERROR" if error else "RUNNING"
    if error:
        cluster["message"] = error[1]
        operation["error"] = error


def _pool_made(
    world: World, operation: dict[str, Any], cluster: dict[str, Any], pool: dict[str, Any]
) -> list[Any] | None:
    """Ends the making of a pool; returns the error, if it is one: code and words."""
    spec, region = pool["spec"], operation["cluster"].split("/")[3]
    if words := rules.over_tpu_quota(
        world, region.rsplit("-", 1)[0] if region.count("-") > 1 else region, [spec]
    ):
        return _fail(operation, pool, "GCE_QUOTA_EXCEEDED", RESOURCE_EXHAUSTED, words)
    if words := rules.reservation(world, spec):
        return _fail(operation, pool, "UNKNOWN", INVALID_ARGUMENT, words)
    if spec.get("config", {}).get("flex_start"):  # its nodes come when pods ask for them
        pool["status"] = "RUNNING"
        return None
    if zone := rules.stocked_out(world, spec, cluster["zones"]):
        words = (
            f"[GCE_STOCKOUT]: Instance 'gke-{spec['name']}-0' creation failed: The zone "
            f"'projects/1234/zones/{zone}' does not have enough resources available to fulfill the request. Try a "
            "different zone, or try again later."
        )
        return _fail(operation, pool, "GCE_STOCKOUT", RESOURCE_EXHAUSTED, words)
    pool["nodes"] = pool["target"]
    pool["status"] = "RUNNING"
    if spec["name"] in world["settings"]["broken_pools"]:
        pool["status"], pool["message"] = "RUNNING_WITH_ERROR", "Some of the nodes could not be registered."
        pool["nodes"] -= 1
    return None


def _fail(
    operation: dict[str, Any], pool: dict[str, Any], condition: str, code: int, words: str
) -> list[Any]:
    pool.update(status="ERROR", message=words, conditions=[[condition, words]])
    operation["conditions"] = [[condition, words]]
    return [code, words]
