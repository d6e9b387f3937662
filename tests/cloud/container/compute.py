"""Serves what clusters need of Compute Engine's API over HTTP: regions, machine types, reservations, resource policies.

It shares the memory of the stand-in for GKE, whose node pools use the policies; faults strike its calls as well.
A request for `https://HOST/PATH` is sent to `http://127.0.0.1:PORT/HOST/PATH`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.cloud.container.catalog import MACHINES, REGIONS, ZONES, machines_in, zones_of
from tests.cloud.container.messages import group_of
from tests.cloud.container.rules import quotas
from tests.cloud.container.store import MUTATING, Store, World
from tests.cloud.container.world import advance
from tests.cloud.faults import due, kill_peer
from tests.cloud.project import iam, memory

_PATH = re.compile(r"/compute\.googleapis\.com/compute/v1/projects/(?P<project>[^/]+)/(?P<rest>.+)")
_STATUS = {"UNAVAILABLE": 503, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "INTERNAL": 500}
_URL = "https://www.googleapis.com/compute/v1"


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def answer(world: World, method: str, project: str, rest: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply to a request, and changes the world as it asks."""
    name = method_of(method, rest)
    if project not in (*world["settings"]["projects"], "p"):
        raise Refused(
            403, f"Compute Engine API has not been used in project {project} before or it is disabled."
        )
    if name in world["settings"]["denied"]:
        raise Refused(403, f"Required 'compute.{name}' permission for 'projects/{project}'")
    parts = rest.split("/")
    match name:
        case "GetRegion":
            if parts[1] not in REGIONS:
                raise missing(project, rest)
            zones = [f"{_URL}/projects/{project}/zones/{zone}" for zone in zones_of(parts[1])]
            return {"name": parts[1], "zones": zones, "quotas": quotas(world, parts[1])}
        case "GetMachineType":
            if parts[1] not in ZONES or parts[3] not in machines_in(parts[1]):
                raise missing(project, rest)
            machine = MACHINES[parts[3]]
            return {"name": parts[3], "guestCpus": machine.cpus, "memoryMb": machine.memory_gb << 10}
        case "GetReservation":
            if not {parts[3], f"projects/{project}/reservations/{parts[3]}"} & {
                *world["settings"]["reservations"]
            }:
                raise missing(project, rest)
            return {"name": parts[3]}
        case "GetInstanceGroupManager":
            return {"name": parts[3], "zone": parts[1], "targetSize": _target(world, project, rest)}
        case "AggregatedListResourcePolicies":
            return _listed(world, project)
        case "GetOperation":
            words = world["settings"]["failing_policies"]
            error = {"error": {"errors": [{"message": words}]}, "httpErrorStatusCode": 403} if words else {}
            return {"name": parts[3], "status": "DONE", **error}
    key = f"{project}/{parts[1]}/{parts[3] if len(parts) > 3 else body.get('name', '')}"
    return _of_policy(world, name, key, body, missing(project, rest))


def _target(world: World, project: str, rest: str) -> int:
    """Returns how many machines a node pool's group of one zone is to have. The group goes with the pool."""
    _, zone, _, name = rest.split("/")
    for key, cluster in world["clusters"].items():
        for pool_name, pool in cluster["pools"].items():
            there = pool["status"] not in ("PROVISIONING", "ERROR")
            zones = pool["spec"].get("locations") or cluster["zones"]
            if there and zone in zones and name == group_of(key, pool_name) and key.split("/")[1] == project:
                return int(pool["target"])
    raise missing(project, rest)


def _listed(world: World, project: str) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, policy in world["policies"].items():
        if key.startswith(f"{project}/"):
            region = items.setdefault(f"regions/{key.split('/')[1]}", {"resourcePolicies": []})
            region["resourcePolicies"].append(policy)
    return {"items": items}


def _of_policy(world: World, name: str, key: str, body: dict[str, Any], gone: Refused) -> dict[str, Any]:
    if name == "InsertResourcePolicy":
        if key in world["policies"]:
            raise Refused(409, f"The resource '{key}' already exists")
        if body.get("workloadPolicy", {}).get("type") != "HIGH_THROUGHPUT":
            raise Refused(400, "Invalid value for field 'resource.workloadPolicy.type'")
        project, region, _ = key.split("/")
        world["next"] += 1
        told = {**body, "id": str(world["next"]), "region": f"{_URL}/projects/{project}/regions/{region}"}
        if not world["settings"]["failing_policies"]:
            world["policies"][key] = told
        return {"name": f"operation-{world['next']}", "status": "RUNNING"}
    if key not in world["policies"]:
        raise gone
    if name == "GetResourcePolicy":
        found: dict[str, Any] = world["policies"][key]
        return found
    used = [
        pool
        for cluster in world["clusters"].values()
        for pool in cluster["pools"].values()
        if pool["spec"].get("placement_policy", {}).get("policy_name") == key.split("/")[2]
    ]
    if used:
        raise Refused(400, f"The resource_policy resource '{key}' is already being used by another resource")
    del world["policies"][key]
    return {"name": "operation-delete", "status": "RUNNING"}


def missing(project: str, rest: str) -> Refused:
    """Returns what is answered for what is not there."""
    return Refused(404, f"The resource 'projects/{project}/{rest}' was not found")


def method_of(method: str, rest: str) -> str:
    """Returns the name of the call that a path is."""
    if rest.startswith("aggregated/resourcePolicies"):
        return "AggregatedListResourcePolicies"
    kinds = {"machineTypes": "MachineType", "reservations": "Reservation", "operations": "Operation"}
    kinds["instanceGroupManagers"] = "InstanceGroupManager"
    for word, kind in kinds.items():
        if f"/{word}/" in rest:
            return f"Get{kind}"
    if "/resourcePolicies" in rest:
        verb = {"GET": "Get", "POST": "Insert", "DELETE": "Delete"}[method]
        return f"{verb}ResourcePolicy"
    return "GetRegion"


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """Returns what answers requests on a store."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body go together: apart, the second waits for 40 ms

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing: requests are logged in the store."""

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else {}
            match = _PATH.fullmatch(urlsplit(self.path).path)
            if match is None:
                self._reply(404, {"error": {"message": "no such path"}})
                return
            name = method_of(self.command, match["rest"])
            fault, _ = due(store, name, MUTATING)
            action = fault.get("action")
            entry = {"method": name, "request": {**body, "path": self.path}, "fault": action}
            entry["mutating"] = name in MUTATING
            peer = f"ipv4:127.0.0.1:{self.client_address[1]}"
            if action == "kill_before":
                store.log(**entry, outcome="never")
                kill_peer(peer)
                self.close_connection = True
                return
            if action == "error":
                store.log(**entry, outcome=fault["code"])
                self._reply(_STATUS[fault["code"]], {"error": {"message": fault.get("message", "injected")}})
                return
            if action == "stall":
                time.sleep(fault["seconds"])
            try:
                with store.changing() as world:
                    who = iam.caller(world, self.headers.get("authorization"))
                    advance(world, time.time())
                    iam.check(world, who, "compute", name, self.path, body)
                    told = answer(world, self.command, match["project"], match["rest"], body)
            except memory.Refused as refused:
                store.log(**entry, outcome=refused.status, message=refused.message)
                error = {"code": refused.http, "status": refused.status, "message": refused.message}
                self._reply(refused.http, {"error": error})
                return
            except Refused as refused:
                store.log(**entry, outcome=str(refused.status), message=refused.message)
                self._reply(refused.status, {"error": {"code": refused.status, "message": refused.message}})
                return
            store.log(**entry, outcome="OK")
            if action == "kill_after":
                kill_peer(peer)
            if action in ("kill_after", "lose_reply"):
                self.close_connection = True
                return
            self._reply(200, told)

        def _reply(self, status: int, told: dict[str, Any]) -> None:
            content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def serve(store: Store) -> int:
    """Serves from a thread of its own; returns the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(store))
    threading.Thread(target=server.serve_forever, name="compute", daemon=True).start()
    return server.server_port
