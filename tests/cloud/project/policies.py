"""Policies of projects, accounts and buckets: read, changed and written whole, by etag; and service accounts."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.cloud.project.memory import Refused, World, allowed, bad, exists, missing, number

_OF_PROJECTS = ".iam.gserviceaccount.com"
OWNER = {"role": "roles/owner", "members": ["user:owner@example.com"]}
_ACCOUNT = re.compile(
    r"v1/projects/(?P<project>[^/]+)/serviceAccounts(/(?P<email>[^/:]+))?(?P<keys>/keys)?(:(?P<verb>\w+))?"
)
_PROJECT = re.compile(r"v3/projects/(?P<project>[^/:]+)(:(?P<verb>\w+))?")


def method_of(host: str, verb: str, path: str) -> str:
    """Returns the name of a call, as the log and the faults have it."""
    if host.startswith("cloudresourcemanager"):
        match = _PROJECT.fullmatch(path)
        words = {"getIamPolicy": "GetProjectPolicy", "setIamPolicy": "SetProjectPolicy"}
        usual = "TestIamPermissions" if match and match["verb"] else "GetProject"
        return words.get(match["verb"] or "", usual) if match else "Unknown"
    match = _ACCOUNT.fullmatch(path)
    if match is None:
        return "Unknown"
    words = {
        "getIamPolicy": "GetAccountPolicy",
        "setIamPolicy": "SetAccountPolicy",
        "undelete": "UndeleteAccount",
        "enable": "EnableServiceAccount",
        "disable": "DisableServiceAccount",
    }
    if match["verb"]:
        return words.get(match["verb"], "Unknown")
    if match["keys"]:
        return {"GET": "ListServiceAccountKeys"}.get(verb, "Unknown")
    return {"GET": "Get", "POST": "Create", "PATCH": "Patch", "DELETE": "Delete"}[verb] + "ServiceAccount"


def of_project(
    world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> dict[str, Any]:
    """Answers for the resource manager."""
    match = _PROJECT.fullmatch(path)
    if match is None:
        raise missing(path)
    project = match["project"]
    if project not in world["settings"]["projects"]:
        raise Refused(403, "PERMISSION_DENIED", f"Project {project!r} not found or permission denied.")
    what = f"projects/{project}"
    match match["verb"]:
        case None:
            allowed(world, "resourcemanager.projects.get", what)
            return {"name": "projects/1234", "projectId": project, "state": "ACTIVE"}
        case "testIamPermissions":
            lacking = world["settings"]["forbidden"]
            return {"permissions": [one for one in body["permissions"] if one not in lacking]}
        case "getIamPolicy":
            allowed(world, "resourcemanager.projects.getIamPolicy", what)
            return policy(world, what)
        case "setIamPolicy":
            allowed(world, "resourcemanager.projects.setIamPolicy", what)
            return set_policy(world, what, body["policy"])
    raise missing(path)


def policy(world: World, what: str) -> dict[str, Any]:
    """Returns a policy as it stands."""
    usual = [OWNER] if what.startswith("projects/") and what.count("/") == 1 else []
    found: dict[str, Any] = world["project"]["policies"].setdefault(
        what, {"version": 1, "etag": "first", "bindings": usual}
    )
    return found


def set_policy(world: World, what: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Writes a policy whole, if it is still the one that was read."""
    there = policy(world, what)
    if world["settings"]["etag_conflicts"]:  # somebody else was faster
        world["settings"]["etag_conflicts"] -= 1
        there["etag"] = f"e{number(world)}"
    if wanted.get("etag") != there["etag"]:
        words = "There were concurrent policy changes. Please retry the whole read-modify-write with backoff."
        raise Refused(409, "ABORTED", words)
    for binding in wanted.get("bindings", ()):
        for member in binding["members"]:
            _known(world, member)
    bindings = [one for one in wanted.get("bindings", ()) if one["members"]]
    conditions = any("condition" in one for one in bindings)
    if conditions and wanted.get("version") != 3:
        raise bad("Specified policy version (1) cannot be less than the existing policy version (3).")
    version = 3 if conditions else 1
    world["project"]["policies"][what] = {
        "version": version,
        "etag": f"e{number(world)}",
        "bindings": bindings,
    }
    return policy(world, what)


def _known(world: World, member: str) -> None:
    kind, _, who = member.partition(":")
    googles = who.endswith("@container-engine-robot.iam.gserviceaccount.com")
    if googles or kind != "serviceAccount" or "svc.id.goog[" in who or not who.endswith(_OF_PROJECTS):
        return
    account = world["project"]["accounts"].get(who)
    late = world["settings"]["accounts_seen_after_s"]
    if account is None or time.time() < account["made_at"] + late:
        raise bad(f"Service account {who} does not exist.", "badRequest")


def of_accounts(
    world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> dict[str, Any]:
    """Answers for IAM."""
    match = _ACCOUNT.fullmatch(path)
    if match is None:
        raise missing(path)
    project, accounts = match["project"], world["project"]["accounts"]
    if verb == "POST" and match["email"] is None:
        allowed(world, "iam.serviceAccounts.create", f"projects/{project}")
        return _create(world, project, body)
    email = match["email"] or ""
    what = f"projects/{project}/serviceAccounts/{email}"
    if email not in accounts and project == "-":  # IAM tells nobody which accounts there are anywhere
        raise Refused(403, "PERMISSION_DENIED", f"Permission denied on {what} (or it may not exist).")
    if email not in accounts:
        raise Refused(404, "NOT_FOUND", f"Unknown service account: {email}")
    if match["keys"]:
        allowed(world, "iam.serviceAccountKeys.list", what)
        own = {"name": f"{what}/keys/0", "keyType": "SYSTEM_MANAGED"}
        some = query.get("keyTypes", "")
        return {
            "keys": [one for one in (own, *accounts[email].get("keys", ())) if some in ("", one["keyType"])]
        }
    if match["verb"] == "getIamPolicy":
        return policy(world, email)
    if match["verb"] == "setIamPolicy":
        allowed(world, "iam.serviceAccounts.setIamPolicy", what)
        return set_policy(world, email, body["policy"])
    if match["verb"] in ("enable", "disable"):
        allowed(world, f"iam.serviceAccounts.{match['verb']}", what)
        accounts[email]["disabled"] = match["verb"] == "disable"
        return {}
    if verb == "PATCH":
        allowed(world, "iam.serviceAccounts.update", what)
        accounts[email] |= {name: body["serviceAccount"][name] for name in body["updateMask"].split(",")}
    if verb == "DELETE":
        allowed(world, "iam.serviceAccounts.delete", what)
        _delete(world, email)
        return {}
    return _told(accounts[email])


def _create(world: World, project: str, body: dict[str, Any]) -> dict[str, Any]:
    name, wanted = body.get("accountId", ""), body.get("serviceAccount", {})
    if not re.fullmatch(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])", name):
        raise bad("Invalid account id: it must be 6 to 30 lower case letters, digits and hyphens.")
    if len(wanted.get("description", "")) > 256 or len(wanted.get("displayName", "")) > 100:
        raise bad("Invalid description: at most 256 bytes.")
    email = f"{name}@{project}.iam.gserviceaccount.com"
    if email in world["project"]["accounts"]:
        raise exists(f"Service account {name} already exists within project projects/{project}.")
    made = {**wanted, "email": email, "uniqueId": number(world), "made_at": time.time()}
    world["project"]["accounts"][email] = made
    return _told(made)


def _delete(world: World, email: str) -> None:
    """What was given to an account stays in the policies, to one that is no more."""
    gone = world["project"]["accounts"].pop(email)
    world["project"]["gone_accounts"][f"{email}?uid={gone['uniqueId']}"] = gone
    world["project"]["policies"].pop(email, None)
    for found in world["project"]["policies"].values():
        for binding in found["bindings"]:
            binding["members"] = [
                f"deleted:{one}?uid={gone['uniqueId']}" if one == f"serviceAccount:{email}" else one
                for one in binding["members"]
            ]


def _told(account: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in account.items() if name not in ("made_at", "keys")}
