"""Serves what a project has beside clusters: network, accounts, policies, buckets, images, boards, APIs; over HTTP.

It shares the memory of the stand-in for GKE, which starts it: clusters use its networks and accounts. A request for
`https://HOST/PATH` is sent to `http://127.0.0.1:PORT/HOST/PATH`, but for Cloud Storage's own, whose client knows where.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.cloud.container.store import MUTATING, Store, World
from tests.cloud.faults import due, kill_peer
from tests.cloud.project import iam, metrics, networks, policies, stores
from tests.cloud.project.call import Call, split
from tests.cloud.project.memory import Refused

_HTTP = {
    "UNAVAILABLE": 503,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "ABORTED": 409,
}


def method_of(host: str, verb: str, path: str) -> str:
    """Returns the name of a call, as the log and the faults have it."""
    if host.startswith("compute"):
        return networks.method_of(verb, path)
    if host.startswith(("iam", "cloudresourcemanager")):
        return policies.method_of(host, verb, path)
    if host.startswith("monitoring"):
        return {"GET": "ListTimeSeries", "POST": "CreateTimeSeries"}[verb]
    return stores.method_of(host, verb, path)


def refuse_if_off(world: World, api: str) -> None:
    """Refuses calls to an API that is not on, or not everywhere yet."""
    late = time.time() < world["project"]["services"].get(api, 0.0)
    if late or api in world["settings"]["apis_off"]:  # Service Usage too: while it is off it turns none on
        words = (
            f"{api} API has not been used in project proj before or it is disabled. Enable it, then retry."
        )
        raise Refused(403, "PERMISSION_DENIED", words, "accessNotConfigured")


def answer(world: World, call: Call) -> stores.Reply:
    """Returns the reply to a request, and changes the world as it asks."""
    if call.api.startswith("storage"):
        return stores.of_storage(world, call)
    parts = {
        "compute": networks.answer,
        "iam": policies.of_accounts,
        "cloudresourcemanager": policies.of_project,
        "artifactregistry": stores.of_registry,
        "aiplatform": stores.of_vertex,
        "serviceusage": stores.of_services,
        "monitoring": metrics.answer,
    }
    return parts[call.api.partition(".")[0]](world, call.verb, call.path, call.query, call.body)


def asked_by(who: str | None, world: World, call: Call) -> stores.Reply:
    """Returns the reply to a request of somebody; None: of whoever it is."""
    about = f"{call.path}/projects/{call.query['project']}" if "project" in call.query else call.path
    refuse_if_off(world, call.api)
    iam.check(world, who, call.api.partition(".")[0], call.name, about, call.body)
    if who is not None and call.name == "TestIamPermissions":
        project = call.path.split("/")[2].partition(":")[0]
        return {"permissions": iam.tested(world, who, project, call.body["permissions"])}
    if who is not None and call.name == "TestIamPermissionsSubnetwork":
        subnet = call.path.removeprefix("compute/v1/").removesuffix("/testIamPermissions")
        places = [f"projects/{subnet.split('/')[1]}", subnet]
        return {"permissions": [one for one in call.body["permissions"] if iam.has(world, who, one, places)]}
    return answer(world, call)


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """Returns what answers requests on a store."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body go together: apart, the second waits for 40 ms

        def do_GET(self) -> None:
            self._serve()

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing: requests are logged in the store."""

        def _call(self) -> Call:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            host, path = split(parts.path)
            path = path if "/o/" in path else unquote(path)
            names = [value for name, value in parse_qsl(parts.query) if name == "names"]
            query = {**dict(parse_qsl(parts.query)), **({"names": ",".join(names)} if names else {})}
            plain = "json" in self.headers.get("content-type", "") and not path.startswith("upload/")
            body = json.loads(raw) if raw and plain else {}
            return Call(method_of(host, self.command, path), host, self.command, path, query, body, raw)

        def _serve(self) -> None:
            call = self._call()
            fault, _ = due(store, call.name, MUTATING)
            action, mutating = fault.get("action"), call.name in MUTATING
            request = {**call.body, "path": call.path}
            entry = {"method": call.name, "request": request, "fault": action, "mutating": mutating}
            peer = f"ipv4:127.0.0.1:{self.client_address[1]}"
            if action == "kill_before":
                store.log(**entry, outcome="never")
                kill_peer(peer)
                self.close_connection = True
                return
            if action == "error":
                store.log(**entry, outcome=fault["code"])
                self._refuse(
                    Refused(_HTTP.get(fault["code"], 400), fault["code"], fault.get("message", "injected"))
                )
                return
            if action == "stall":
                time.sleep(fault["seconds"])
            try:
                with store.changing() as world:
                    who = iam.caller(world, self.headers.get("authorization"))
                    told = asked_by(who, world, call)
            except Refused as refused:
                store.log(**entry, outcome=refused.status, message=refused.message)
                self._refuse(refused)
                return
            store.log(**entry, outcome="OK")
            if action == "kill_after":
                kill_peer(peer)
            if action in ("kill_after", "lose_reply"):
                self.close_connection = True
                return
            self._reply(200, told)

        def _refuse(self, refused: Refused) -> None:
            error = {"code": refused.http, "status": refused.status, "message": refused.message}
            reasons = [{"reason": refused.reason, "message": refused.message}]
            self._reply(refused.http, {"error": {**error, "errors": reasons}})

        def _reply(self, status: int, told: stores.Reply) -> None:
            headers = {"content-type": "application/json"}
            if isinstance(told, dict) and "media" in told:
                content = base64.b64decode(told["media"])
                headers = {
                    "content-type": "application/octet-stream",
                    "x-goog-generation": told["generation"],
                }
            else:
                content = json.dumps(told).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    return Handler


def serve(store: Store) -> int:
    """Serves from a thread of its own; returns the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(store))
    threading.Thread(target=server.serve_forever, name="project", daemon=True).start()
    return server.server_port
