"""Who may make a call: by the roles that policies give to whoever its token names. Only where the setting `callers` is.

A role on the project holds for all that is in it; a bucket and a service account have policies of their own beside it.
What was asked for, and of whom, stands in the project's `asked`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.cloud.project.iam_calls import OF_CALLS
from tests.cloud.project.iam_roles import NOT_OF_OWNERS, OF_ROLES
from tests.cloud.project.memory import Refused, World
from tests.cloud.project.policies import policy

_PROJECT = re.compile(r"(?:^|/)projects/(?P<project>[^/:]+)")
_BUCKET = re.compile(r"storage/v1/b/(?P<bucket>[^/?]+)")
_ACCOUNT = re.compile(r"serviceAccounts/(?P<email>[^/:]+@(?P<project>[^/.]+)\.iam\.gserviceaccount\.com)")
_ONLY = re.compile(
    r"api\.getAttribute\('iam\.googleapis\.com/modifiedGrantsByRole', \[\]\)\.hasOnly\(\[(?P<roles>[^\]]*)\]\)"
)


def caller(world: World, authorization: str | None) -> str | None:
    """Returns the member that a call's token names; None: nobody is asked who they are. Refuses tokens of nobody."""
    callers = world["settings"]["callers"]
    if not callers:
        return None
    who: str | None = callers.get((authorization or "").removeprefix("Bearer "))
    kind, _, email = (who or "").partition(":")
    there = kind != "serviceAccount" or email in world["project"]["accounts"]
    if who is None or not there:
        words = "Request had invalid authentication credentials. Expected OAuth 2 access token."
        raise Refused(401, "UNAUTHENTICATED", words)
    return who


def check(world: World, who: str | None, api: str, call: str, path: str, body: Mapping[str, Any]) -> None:
    """Refuses a call that whoever makes it may not make. `path`: what it is about; `body`: its request."""
    if who is None:
        return
    places = list(_places(world, path))
    for permission in _needed(api, call, path):
        _demand(world, who, permission, places, _changed(world, places[0], call, body))
    for email in _acts_as(api, call, body):
        _demand(world, who, "iam.serviceAccounts.actAs", [places[0], email])


def tested(world: World, who: str, project: str, permissions: Iterable[str]) -> list[str]:
    """Returns those of the permissions that somebody has on a project."""
    return [one for one in permissions if has(world, who, one, [f"projects/{project}"])]


def has(world: World, who: str, permission: str, places: Iterable[str], changed: Iterable[str] = ()) -> bool:
    """Whether policies of these places let somebody do something. `changed`: roles that are given or taken by it."""
    if permission in world["settings"]["forbidden"]:  # a policy that denies goes before all roles
        return False
    return any(
        who in one["members"] and _holds(one.get("condition"), changed) and _lets(one["role"], permission)
        for place in places
        for one in policy(world, place)["bindings"]
    )


def _lets(role: str, permission: str) -> bool:
    if role == "roles/owner" and permission in NOT_OF_OWNERS:
        return False
    return any(fnmatchcase(permission, pattern) for pattern in OF_ROLES.get(role, ()))


def _holds(condition: Mapping[str, str] | None, changed: Iterable[str]) -> bool:
    """Whether a binding holds: of conditions there is one kind, by which no other roles are given or taken."""
    if condition is None:
        return True
    match = _ONLY.fullmatch(condition["expression"])
    assert match is not None, f"not a condition that is known here: {condition}"
    return set(changed) <= set(re.findall(r"'([^']+)'", match["roles"]))


def _demand(world: World, who: str, permission: str, places: list[str], changed: Iterable[str] = ()) -> None:
    asked = world["project"].setdefault("asked", {}).setdefault(who, [])
    if permission not in asked:
        asked.append(permission)
    if permission in world["settings"]["stale"] or not has(world, who, permission, places, changed):
        raise Refused(
            403, "PERMISSION_DENIED", f"Required '{permission}' permission for '{places[-1]}'", "forbidden"
        )


def _needed(api: str, call: str, path: str) -> tuple[str, ...]:
    if call == "GetComputeOperation":
        call = "global/operations" if "/global/" in path else "regions/operations"
    elif api == "compute" and call == "GetOperation":
        call = "regions/operations"
    elif path.endswith(("/o", "/tensorboards")):  # of a collection, not of one of its members
        call = call.replace("Get", "List")
    needed = OF_CALLS[api].get(call)
    if needed is None:
        raise Refused(403, "PERMISSION_DENIED", f"nobody here knows which permission {call} of {api} takes")
    return needed


def _places(world: World, path: str) -> Iterator[str]:
    """Yields what has a policy by which a call is judged: the project, and what in it the call is about."""
    if match := _ACCOUNT.search(path):
        yield f"projects/{match['project']}"
        if match["email"] in world["project"]["accounts"]:
            yield match["email"]
        return
    match = _PROJECT.search(path)
    yield f"projects/{match['project'] if match else world['settings']['projects'][0]}"
    match = _BUCKET.search(path)
    if match and match["bucket"] in world["project"]["buckets"]:
        yield f"gs://{match['bucket']}"


def _changed(world: World, place: str, call: str, body: Mapping[str, Any]) -> set[str]:
    """Returns the roles of a project that a call gives to somebody, or takes."""
    if call != "SetProjectPolicy":
        return set()
    before, after = (
        {(one["role"], member, str(one.get("condition"))) for one in bindings for member in one["members"]}
        for bindings in (policy(world, place)["bindings"], body["policy"].get("bindings", ()))
    )
    return {role for role, _, _ in before ^ after}


def _acts_as(api: str, call: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yields the accounts that machines get by a call."""
    if api != "container" or call not in ("CreateCluster", "CreateNodePool"):
        return
    for pool in (*body.get("cluster", {}).get("node_pools", ()), body.get("node_pool") or {}):
        email = pool.get("config", {}).get("service_account", "")
        if "@" in email:
            yield email
