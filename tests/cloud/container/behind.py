"""What is behind a cluster: a stand-in for Kubernetes as a process of its own, with nodes as the node pools say.

It is there before the cluster is RUNNING, served by TLS and to those who have a token, and gone with the cluster. Of
what was in it then, and of the calls that it saw, `kubernetes.jsonl` keeps a line. Tokens are given out at a port of
their own, to whoever asks, as Google's are to a service account: `credentials` writes one's file.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cloud.container.catalog import MACHINES
from tests.cloud.container.store import Store
from tests.cloud.container.world import advance
from tests.cloud.kubernetes import certificates
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

TOKEN = "a-token-of-the-stand-in"
ENDED = "kubernetes.jsonl"

_LABELS = {
    "CT4P": "tpu-v4-podslice", "CT5LP": "tpu-v5-lite-podslice", "CT5P": "tpu-v5p-slice",
    "CT6E": "tpu-v6e-slice", "TPU7X": "tpu7x",
}  # fmt: skip
_ALONE = {1: "1x1", 4: "2x2", 8: "2x4"}
_LOOK_S = 0.03


class Behind(threading.Thread):
    """Sees to it that what is behind the clusters is as they are."""

    def __init__(self, store: Store) -> None:
        super().__init__(daemon=True)
        self._store = store
        self._running: dict[str, tuple[contextlib.ExitStack, KubernetesStandIn]] = {}
        self._nodes: dict[str, dict[str, int]] = {}
        self._born: dict[str, int] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Looks again and again, until `end`."""
        while not self._over.wait(_LOOK_S):
            try:
                self._look()
            except Exception:  # noqa: BLE001 (told in the log; the next look may do better)
                traceback.print_exc()
        for number in list(self._running):
            self._end(number)

    def end(self) -> None:
        """Ends all of them."""
        self._over.set()
        self.join(30)

    def _look(self) -> None:
        world = self._store.read()
        wanted = world["settings"]["kubernetes"]
        if wanted is None and not self._running:
            return
        if world["operations"]:
            with self._store.changing() as world:
                advance(world, time.time())
        there = {one["id"]: key for key, one in world["clusters"].items()} if wanted is not None else {}
        for number in [number for number in self._running if number not in there]:
            self._end(number)
        for number, key in there.items():
            if number not in self._running:
                self._start(number, key, wanted)
            self._match(number, world["clusters"][key]["pools"])
            self._born[number] = world["born"]

    def _start(self, number: str, key: str, wanted: dict[str, Any]) -> None:
        folder = self._store.folder / "clusters" / number
        settings = {
            "nodes": [{"pool": "none", "count": 0}],
            "token": TOKEN,
            "certificates": str(certificates.make(folder / "certificates")),
            **{name: value for name, value in wanted.items() if name not in ("without", "faults")},
        }
        without = tuple(wanted.get("without", ()))
        stack = contextlib.ExitStack()
        started = stack.enter_context(KubernetesStandIn.started(folder, without=without, **settings))
        self._running[number], self._nodes[number] = (stack, started), {}
        if wanted.get("faults"):
            started.fault(*wanted["faults"])
        authority = Path(settings["certificates"]) / "ca.pem"
        with self._store.changing() as world:
            if key in world["clusters"]:
                world["clusters"][key]["kubernetes"] = {
                    "url": started.url,
                    "control": started.control,
                    "mark": started.mark,
                    "folder": str(started.folder),
                    "authority": authority.read_text(),
                }

    def _match(self, number: str, pools: dict[str, Any]) -> None:
        """Lets nodes come and go with their pools."""
        _, cluster = self._running[number]
        there = self._nodes[number]
        wanted = {
            name: pool["nodes"]
            for name, pool in pools.items()
            if pool["status"] in ("RUNNING", "RECONCILING", "RUNNING_WITH_ERROR")
        }
        for name, count in wanted.items():
            if count > there.get(name, 0):
                cluster.tell("nodes", pools=[{**nodes_of(pools[name]["spec"]), "count": count}])
                there[name] = count
        for name in list(there):
            for index in range(wanted.get(name, 0), there[name]):
                cluster.tell("lose_node", name=f"{name}-{index}", deleted=True)
            there[name] = wanted.get(name, 0)
            if not there[name]:
                del there[name]

    def _end(self, number: str) -> None:
        stack, cluster = self._running.pop(number)
        line = {
            "id": number,
            "born": self._born.get(number),
            "calls": cluster.calls(),
            "objects": cluster.inventory()["objects"],
        }
        # At one stroke: tests look meanwhile.
        with (self._store.folder / ENDED).open("ab", buffering=0) as log:
            log.write(f"{json.dumps(line)}\n".encode())
        stack.close()


def nodes_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns what the nodes of a pool are like, as GKE labels and taints them."""
    config = spec.get("config", {})
    machine = MACHINES[config.get("machine_type", "e2-standard-16")]
    labels = {"node.kubernetes.io/instance-type": machine.name}
    resources, taints = {}, []
    if machine.chips:
        topology = spec.get("placement_policy", {}).get("tpu_topology") or _ALONE[machine.chips]
        labels |= {
            "cloud.google.com/gke-tpu-accelerator": _LABELS[machine.family],
            "cloud.google.com/gke-tpu-topology": topology,
        }
        resources["google.com/tpu"] = str(machine.chips)
        taints.append({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"})
    if machine.gpus:
        labels["cloud.google.com/gke-accelerator"] = machine.gpu
        resources["nvidia.com/gpu"] = str(machine.gpus)
        taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    labels |= config.get("labels", {})
    effects = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
    taints += [{**one, "effect": effects[one["effect"]]} for one in config.get("taints", ())]
    if config.get("spot"):
        labels["cloud.google.com/gke-spot"] = "true"
    if names := config.get("reservation_affinity", {}).get("values"):
        labels["cloud.google.com/reservation-name"] = names[0]
    return {"pool": spec["name"], "labels": labels, "resources": resources, "taints": taints}


class _Tokens(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Gives a token to whoever asks."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Says nothing."""


def give_tokens() -> int:
    """Serves tokens at a free port of this machine; returns it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def credentials(file: Path, port: int) -> Path:
    """Writes the key file of a service account that gets its tokens at a port; returns it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "proj",
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "tester@proj.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"http://127.0.0.1:{port}/token",
    }
    file.write_text(json.dumps(account))
    return file
