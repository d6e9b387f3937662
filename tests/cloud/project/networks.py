"""Networks, subnetworks, routers and firewall rules of Compute Engine: what is in use cannot go."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from tests.cloud.project import policies
from tests.cloud.project.memory import (
    Refused,
    World,
    allowed,
    bad,
    begun,
    exists,
    in_use,
    is_done,
    missing,
    number,
)

_PATH = re.compile(
    r"compute/v1/projects/(?P<project>[^/]+)/(?P<place>global|regions/[^/]+)/(?P<kind>\w+)"
    r"(/(?P<name>[^/]+))?(/(?P<verb>\w+))?"
)
_LINK = "https://www.googleapis.com/compute/v1/"
_NAMES = {"networks": "Network", "subnetworks": "Subnetwork", "routers": "Router", "firewalls": "Firewall"}


def method_of(verb: str, path: str) -> str:
    """Returns the name of a call, as the log and the faults have it."""
    match = _PATH.fullmatch(path)
    if match is None:
        return "Unknown"
    if match["kind"] == "operations":
        return "GetComputeOperation"
    what = _NAMES.get(match["kind"], "Unknown")
    if match["verb"]:
        return f"{match['verb'][0].upper()}{match['verb'][1:]}{what}"
    words = {
        "GET": "Get" if match["name"] else "List",
        "POST": "Insert",
        "PATCH": "Patch",
        "DELETE": "Delete",
    }
    return f"{words[verb]}{what}"


def answer(world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """Returns the reply to a request, and changes the world as it asks."""
    match = _PATH.fullmatch(path)
    if match is None or match["kind"] not in (*_NAMES, "operations"):
        raise missing(path)
    folder = f"projects/{match['project']}/{match['place']}"
    if match["kind"] == "operations":
        name = f"{folder}/operations/{match['name']}"
        done = is_done(world, name)
        return {"name": match["name"], "status": "DONE" if done else "RUNNING"}
    if match["verb"] == "getIamPolicy":
        allowed(world, f"compute.{match['kind']}.getIamPolicy", path)
        return policies.policy(world, f"{folder}/{match['kind']}/{match['name']}")
    if match["verb"] == "testIamPermissions":
        lacking = world["settings"]["forbidden"]
        return {"permissions": [one for one in body["permissions"] if one not in lacking]}
    part = world["project"][match["kind"]]
    key = f"{folder}/{match['kind']}/{match['name'] or body.get('name', '')}"
    acts = {"GET": "get", "POST": "create", "PATCH": "update", "DELETE": "delete"}
    wanted = "expandIpCidrRange" if match["verb"] == "expandIpCidrRange" else acts[verb]
    wanted = "list" if verb == "GET" and not match["name"] else wanted
    wanted = "update" if match["verb"] and wanted == "create" else wanted
    allowed(world, f"compute.{match['kind']}.{wanted}", key)
    if verb == "GET":
        if not match["name"]:
            return {"items": [one for name, one in sorted(part.items()) if name.startswith(f"{folder}/")]}
        if key not in part:
            raise missing(key)
        found: dict[str, Any] = part[key]
        return {**found, "subnetworks": _subnets_of(world, key)} if match["kind"] == "networks" else found
    if verb == "POST" and not match["name"]:
        _insert(world, match["kind"], folder, key, body)
    elif key not in part:
        raise missing(key)
    elif verb == "DELETE":
        _delete(world, match["kind"], key)
    else:
        _change(world, match["kind"], key, match["verb"] or "", body)
    name = f"operation-{number(world)}"
    begun(world, f"{folder}/operations/{name}")
    return {"name": name, "status": "RUNNING", "targetLink": f"{_LINK}{key}"}


def _subnets_of(world: World, network: str) -> list[str]:
    """Returns links to the subnetworks of a network, in all regions."""
    there = world["project"]["subnetworks"].items()
    return [f"{_LINK}{name}" for name, one in there if one["network"] == f"{_LINK}{network}"]


def _insert(world: World, kind: str, folder: str, key: str, body: dict[str, Any]) -> None:
    part = world["project"][kind]
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", str(body.get("name", ""))):
        raise bad(f"Invalid value for field 'resource.name': '{body.get('name')}'.")
    if key in part:
        raise exists(key)
    if len(str(body.get("description", ""))) > 2048:
        raise bad("Invalid value for field 'resource.description': too long.")
    told = {**body, "id": number(world), "selfLink": f"{_LINK}{key}"}
    if kind == "subnetworks":  # the only kind here that has one
        told["fingerprint"] = number(world)
    if kind == "firewalls":
        told = {"priority": 1000, "disabled": False, **told}
    if kind != "networks":
        link = str(body.get("network", "")).removeprefix(_LINK)
        if link not in world["project"]["networks"]:
            raise bad(
                f"Invalid value for field 'resource.network': '{link}'. The referenced network cannot be found."
            )
        told["network"] = f"{_LINK}{link}"
    if kind == "subnetworks":
        told["region"] = f"{_LINK}{folder}"
        _ranges(world, key, told)
    if kind == "routers":
        _nats(world, key, told)
    part[key] = told


def _ranges(world: World, key: str, wanted: dict[str, Any]) -> None:
    """Refuses ranges that overlap with those of the same network."""
    mine = [wanted["ipCidrRange"], *(one["ipCidrRange"] for one in wanted.get("secondaryIpRanges", ()))]
    others = [
        cidr
        for name, one in world["project"]["subnetworks"].items()
        if name != key and one["network"] == wanted["network"]
        for cidr in (one["ipCidrRange"], *(each["ipCidrRange"] for each in one.get("secondaryIpRanges", ())))
    ]
    seen: list[str] = []
    for cidr in (*others, *mine):
        for other in seen:
            if ipaddress.ip_network(cidr).overlaps(ipaddress.ip_network(other)):
                raise bad(f"Invalid IPCidrRange: {cidr} conflicts with existing range {other}.")
        seen.append(cidr)


def _nats(world: World, key: str, wanted: dict[str, Any]) -> None:
    """Refuses what a NAT cannot be, and two of which one is for all that the other is for."""
    nats = wanted.get("nats", ())
    if len({one.get("name") for one in nats}) < len(nats):
        raise bad("Invalid value for field 'resource.nats': names of NATs must be unique.")
    for nat in nats:
        if nat.get("natIpAllocateOption") == "AUTO_ONLY" and (nat.get("natIps") or nat.get("drainNatIps")):
            raise bad("Invalid value for field 'resource.nats[0].natIps': not with AUTO_ONLY.")
        some = str(nat.get("sourceSubnetworkIpRangesToNat")) == "LIST_OF_SUBNETWORKS"
        if bool(nat.get("subnetworks")) is not some:
            raise bad(
                "Invalid value for field 'resource.nats[0].subnetworks': with LIST_OF_SUBNETWORKS alone."
            )
    folder = key.rpartition("/")[0]
    others = [
        nat
        for name, router in world["project"]["routers"].items()
        if name != key and name.startswith(f"{folder}/") and router["network"] == wanted["network"]
        for nat in router.get("nats", ())
    ]
    public = [one for one in (*nats, *others) if one.get("type", "PUBLIC") == "PUBLIC"]
    if len(public) > 1 and any(one["sourceSubnetworkIpRangesToNat"].startswith("ALL_") for one in public):
        words = "A NAT of all subnetworks must be the only one of its network in a region."
        raise bad(f"Invalid value for field 'resource.nats': {words}")


def _change(world: World, kind: str, key: str, verb: str, body: dict[str, Any]) -> None:
    thing = world["project"][kind][key]
    if verb == "expandIpCidrRange":
        new, old = (ipaddress.ip_network(one["ipCidrRange"]) for one in (body, thing))
        if not new.supernet_of(old):  # type: ignore[arg-type]
            raise bad(f"Invalid value for field 'ipCidrRange': {new} does not contain {old}.")
    elif verb == "setPrivateIpGoogleAccess":
        pass
    elif kind == "subnetworks":
        if world["settings"]["fingerprint_conflicts"]:  # somebody else was faster
            world["settings"]["fingerprint_conflicts"] -= 1
            thing["fingerprint"] = number(world)
        if body.get("fingerprint") != thing["fingerprint"]:
            raise Refused(412, "FAILED_PRECONDITION", "Invalid fingerprint.", "conditionNotMet")
    elif kind == "networks" and set(body) - {"routingConfig", "mtu"}:
        raise bad("Invalid value for field 'resource': it cannot be changed.")
    changed = {**thing, **{name: value for name, value in body.items() if name != "fingerprint"}}
    if kind == "subnetworks":
        changed["fingerprint"] = number(world)
        _ranges(world, key, changed)
    if kind == "routers":
        _nats(world, key, changed)
    thing |= changed


def _delete(world: World, kind: str, key: str) -> None:
    if kind == "networks":
        for other in ("subnetworks", "routers", "firewalls"):
            for name, one in world["project"][other].items():
                if one["network"] == f"{_LINK}{key}":
                    raise in_use(key, name)
    if kind in ("networks", "subnetworks"):
        field = kind.removesuffix("s")
        for name, cluster in world["clusters"].items():
            used = cluster["spec"].get(field, "")
            if used in (key, key.rsplit("/", 1)[1]):
                raise in_use(key, name)
    del world["project"][kind][key]


def check_cluster(world: World, cluster: str, spec: dict[str, Any]) -> str:
    """Returns why a cluster cannot be made with its network and accounts; empty: it can."""
    project, location = cluster.split("/")[1], cluster.split("/")[3]
    region = location.rsplit("-", 1)[0] if location.count("-") > 1 else location
    network, subnet = spec.get("network", "default"), spec.get("subnetwork", "")
    link = network if "/" in network else f"projects/{project}/global/networks/{network}"
    if network != "default" and link not in world["project"]["networks"]:
        return f"Network {network!r} does not exist."
    place = subnet if "/" in subnet else f"projects/{project}/regions/{region}/subnetworks/{subnet}"
    there = world["project"]["subnetworks"].get(place)
    if subnet and there is None:
        return f"Subnetwork {subnet!r} does not exist."
    ranges = {one["rangeName"] for one in (there or {}).get("secondaryIpRanges", ())}
    host = place.split("/")[1]
    if host != project and (words := _lacking_in_host(world, host, place)):
        return words
    policy = spec.get("ip_allocation_policy", {})
    for field in ("cluster_secondary_range_name", "services_secondary_range_name"):
        if policy.get(field) and policy[field] not in ranges:
            return f"Secondary range {policy[field]!r} does not exist in subnetwork {subnet!r}."
    for pool in spec.get("node_pools", ()):
        if words := check_account(world, pool):
            return words
    return ""


SERVICE_PROJECT = "1234"
AGENT = f"serviceAccount:service-{SERVICE_PROJECT}@container-engine-robot.iam.gserviceaccount.com"
SERVICES = f"serviceAccount:{SERVICE_PROJECT}@cloudservices.gserviceaccount.com"


def _lacking_in_host(world: World, host: str, subnet: str) -> str:
    """Returns which role GKE's accounts lack in the project of a shared VPC; empty: none."""
    on_host, on_subnet = (policies.policy(world, one)["bindings"] for one in (f"projects/{host}", subnet))
    for role, member, bindings in (
        ("roles/compute.networkUser", AGENT, (*on_host, *on_subnet)),
        ("roles/compute.networkUser", SERVICES, (*on_host, *on_subnet)),
        ("roles/container.hostServiceAgentUser", AGENT, on_host),
    ):
        if not any(one["role"] == role and member in one["members"] for one in bindings):
            return f"Service account {member.partition(':')[2]!r} lacks {role} in the host project {host!r}."
    return ""


def check_account(world: World, pool: dict[str, Any]) -> str:
    """Returns why a node pool cannot act as its account; empty: it can."""
    account = pool.get("config", {}).get("service_account", "default")
    if account != "default" and account not in world["project"]["accounts"]:
        return f"Service account {account!r} does not exist."
    return ""


def rules_of_gke(world: World, cluster: str, spec: dict[str, Any]) -> None:
    """Adds the firewall rule that GKE makes for a cluster in a network of the project."""
    project, name = cluster.split("/")[1], cluster.rsplit("/", 1)[1]
    network = spec.get("network", "default")
    link = network if "/" in network else f"projects/{project}/global/networks/{network}"
    if link in world["project"]["networks"]:
        rule = f"gke-{name[:20]}-{number(world)[-8:]}-vms"
        key = f"{'/'.join(link.split('/')[:2])}/global/firewalls/{rule}"
        told = {"name": rule, "network": f"{_LINK}{link}", "cluster": cluster, "description": ""}
        world["project"]["firewalls"][key] = {**told, "id": number(world)}


def forget_rules(world: World, cluster: str) -> None:
    """Takes away what GKE made for a cluster that is gone, unless it stays behind."""
    if not world["settings"]["rules_stay"]:
        rules = world["project"]["firewalls"]
        for key in [key for key, one in rules.items() if one.get("cluster") == cluster]:
            del rules[key]
