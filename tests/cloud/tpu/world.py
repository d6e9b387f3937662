"""How things change in the stand-in with time: nodes come up, queues move, deletions end, operations finish."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.cloud.tpu.catalog import KINDS
from tests.cloud.tpu.rules import no_capacity
from tests.cloud.tpu.store import World

UNTIL_DELETED = ("FAILED", "SUSPENDED")
"""Queued resources stay in these until somebody deletes them, and hold quota."""


def advance(world: World, now: float) -> None:
    """Brings everything to where it stands at `now`."""
    for name in list(world["nodes"]):
        if name in world["nodes"]:
            _advance_node(world, name, now)
    for name in list(world["queued"]):
        _advance_queued(world, name, now)
    for operation in world["operations"].values():
        if not operation["done"] and operation["due"] is not None and operation["due"] <= now:
            operation["done"] = True


def new_node(
    world: World, name: str, zone: str, kind: str, spec: dict[str, Any], now: float
) -> dict[str, Any]:
    """Adds a node that is being created."""
    world["nodes"][name] = node = {
        "zone": zone,
        "kind": kind,
        "spec": spec,
        "state": "CREATING",
        "created": now,
        "due": now + world["settings"]["create_s"],
        "id": number(world),
        "hosts": [],
        "queued": None,
        "multislice": False,
    }
    return node


def new_operation(
    world: World, project: str, zone: str, target: str, verb: str, due: float | None = None
) -> str:
    """Adds an operation; `due` None: something else ends it."""
    name = f"projects/{project}/locations/{zone}/operations/operation-{number(world)}"
    world["operations"][name] = {
        "target": target, "verb": verb, "done": False, "due": due, "error": None, "created": time.time(),
    }  # fmt: skip
    return name


def finish(world: World, target: str, verb: str, error: tuple[int, str] | None = None) -> None:
    """Ends the operations of this verb on this target, with a status code and message where they failed."""
    for operation in world["operations"].values():
        if (operation["target"], operation["verb"]) == (target, verb) and not operation["done"]:
            operation["done"], operation["error"] = True, error


def busy(world: World, target: str) -> bool:
    """Whether an operation on this target is under way."""
    return any(one["target"] == target and not one["done"] for one in world["operations"].values())


def preempt(world: World, name: str, now: float) -> None:
    """Takes a node away: it is PREEMPTED and holds its quota; its queued resource is suspended."""
    node = world["nodes"][name]
    node["state"], node["due"] = "PREEMPTED", None
    power_off(world, node)
    queued = world["queued"].get(node["queued"] or "")
    if queued and queued["state"] not in ("DELETING", *UNTIL_DELETED):
        queued["state"], queued["due"] = "SUSPENDING", now + world["settings"]["suspend_s"]
        queued["initiator"] = "SERVICE"


def power_off(world: World, node: dict[str, Any]) -> None:
    """Gives the hosts of a node back."""
    for index in node["hosts"]:
        host = world["hosts"][index] if index < len(world["hosts"]) else {}
        if host:
            host["taken"] = None
    node["hosts"] = []


def push_keys(world: World, node: dict[str, Any]) -> None:
    """Does what the agent on a real host does: metadata's ssh-keys become authorized keys, unless OS Login is on."""
    metadata = node["spec"].get("metadata") or {}
    if metadata.get("enable-oslogin", world["settings"]["os_login"]).upper() in ("TRUE", "YES", "Y", "1"):
        return
    entries = metadata.get("ssh-keys", "").splitlines()
    keys = [entry.partition(":")[2] for entry in entries if ":" in entry]
    for index in node["hosts"]:
        host = world["hosts"][index] if index < len(world["hosts"]) else {}
        if host.get("authorized_keys"):
            file = Path(
                host["authorized_keys"]
            )  # may be shared by several hosts, so nothing is taken from it
            there = file.read_text().splitlines() if file.exists() else []
            file.write_text("".join(f"{key}\n" for key in dict.fromkeys((*there, *keys))))


def number(world: World) -> int:
    """Returns a number nobody had before."""
    world["next"] += 1
    taken: int = world["next"]
    return taken


def _held(world: World, thing: dict[str, Any], now: float) -> bool:
    return thing["state"] in world["settings"]["hold"] or thing["due"] is None or thing["due"] > now


def _stocked_out(world: World, zone: str, kind: str) -> bool:
    out = world["settings"]["stockouts"]
    return zone in out or f"{zone}/{KINDS[kind].family}" in out


def _advance_node(world: World, name: str, now: float) -> None:
    node = world["nodes"][name]
    if _held(world, node, now):
        return
    if node["state"] == "CREATING":
        if not node["queued"] and (
            _stocked_out(world, node["zone"], node["kind"]) or not _place(world, node, name)
        ):
            del world["nodes"][name]
            finish(world, name, "create", (8, no_capacity(node["zone"])))
            return
        if node["queued"]:
            _place(world, node, name)
        node["state"], node["due"] = "READY", None
        push_keys(world, node)
        finish(world, name, "create")
    elif node["state"] == "DELETING":
        power_off(world, node)
        del world["nodes"][name]
        finish(world, name, "delete")
    elif node["state"] in ("STOPPING", "STARTING"):
        verb = "stop" if node["state"] == "STOPPING" else "start"
        node["state"], node["due"] = ("STOPPED" if verb == "stop" else "READY"), None
        finish(world, name, verb)


def _place(world: World, node: dict[str, Any], name: str) -> bool:
    """Gives a node its hosts: those of the list that are free, or invented ones when there is no list."""
    wanted = KINDS[node["kind"]].hosts
    if not world["hosts"]:
        node["hosts"] = [10_000 + number(world) for _ in range(wanted)]
        return True
    free = [index for index, host in enumerate(world["hosts"]) if not host.get("taken")]
    if len(free) < wanted:
        return False
    node["hosts"] = free[:wanted]
    for index in node["hosts"]:
        world["hosts"][index]["taken"] = name
    return True


def _advance_queued(world: World, name: str, now: float) -> None:
    queued = world["queued"][name]
    if queued["state"] == "PROVISIONING":
        _provisioned(world, name, queued)
        return
    if _held(world, queued, now):
        return
    match queued["state"]:
        case "ACCEPTED":
            queued["state"], queued["due"] = "WAITING_FOR_RESOURCES", now
            _advance_queued(world, name, now)
        case "WAITING_FOR_RESOURCES":
            _wait(world, name, queued, now)
        case "SUSPENDING":
            queued["state"], queued["due"] = "SUSPENDED", None
        case "DELETING":
            for node_name in list(world["nodes"]):
                if world["nodes"][node_name]["queued"] == name:
                    power_off(world, world["nodes"][node_name])
                    del world["nodes"][node_name]
            del world["queued"][name]
            finish(world, name, "create", (1, "The operation was cancelled."))
            finish(world, name, "delete")


def _wait(world: World, name: str, queued: dict[str, Any], now: float) -> None:
    if queued["until"] is not None and queued["until"] <= now:
        _fail(world, name, queued, 4, "The request was not fulfilled before its valid_until time.")
        return
    zone = queued["zone"]
    out = any(_stocked_out(world, zone, one["kind"]) for one in queued["specs"])
    if out or (queued["begin"] is not None and queued["begin"] > now):
        return
    project = name.split("/")[1]
    for one in queued["specs"]:
        node_name = f"projects/{project}/locations/{zone}/nodes/{one['id']}"
        if node_name in world["nodes"]:
            _fail(world, name, queued, 6, f"Resource '{node_name}' already exists")
            return
        node = new_node(world, node_name, zone, one["kind"], one["spec"], now)
        node["queued"], node["multislice"] = name, len(queued["specs"]) > 1
    queued["state"], queued["due"] = "PROVISIONING", None


def _provisioned(world: World, name: str, queued: dict[str, Any]) -> None:
    nodes = [node for node in world["nodes"].values() if node["queued"] == name]
    if len(nodes) == len(queued["specs"]) and all(node["state"] == "READY" for node in nodes):
        if "PROVISIONING" in world["settings"]["hold"]:
            return
        queued["state"] = "ACTIVE"
        finish(world, name, "create")


def _fail(world: World, name: str, queued: dict[str, Any], code: int, why: str) -> None:
    queued.update(state="FAILED", due=None, error=[code, why])
    finish(world, name, "create", (code, why))
