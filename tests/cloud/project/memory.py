"""What a project has beside clusters, in the memory of the stand-in for GKE: its parts, and how it refuses."""

from __future__ import annotations

import time
from typing import Any

World = dict[str, Any]

PARTS: dict[str, Any] = {
    "networks": {},
    "subnetworks": {},
    "routers": {},
    "firewalls": {},
    "operations": {},
    "accounts": {},  # e-mail → account
    "gone_accounts": {},  # the same of those that were deleted
    "policies": {},  # of projects, accounts (e-mail) and buckets (gs://name)
    "buckets": {},
    "gone_buckets": {},  # those that were deleted, by name and generation: kept for a week, and their names are free
    "objects": {},  # "bucket/name" → {content, generation, …}
    "repositories": {},
    "tensorboards": {},
    "series": [],  # of Cloud Monitoring, as they were written
    "services": {},  # name → when it is on everywhere, seconds, of those that were turned on
}

SETTINGS: dict[str, Any] = {
    "whole": False,  # clusters need their network and accounts to be there
    "apis_off": [],  # names of APIs that nobody has turned on yet
    "apis_on_after_s": 0.0,  # seconds until what was turned on is so everywhere
    "forbidden": [],  # permissions that the caller lacks, whatever the roles
    "stale": [],  # permissions that were just taken from everybody: who asks what they may do still hears of them
    "callers": {},  # token → member; where there is any, each call needs one whose roles let it be made, see iam.py
    "accounts_seen_after_s": 0.0,  # policies do not know an account before
    "boards_listed_after_s": 0.0,  # TensorBoards do not show in lists before
    "operation_s": 0.0,  # of Compute Engine and others that are long running
    "metrics_late_s": 0.0,  # what Cloud Monitoring was given does not show before
    "taken_buckets": [],  # names of buckets of other people's projects
    "rules_stay": False,  # firewall rules that GKE made outlive the cluster
    "etag_conflicts": 0,  # so many writes of policies meet another's first
    "fingerprint_conflicts": 0,  # so many changes of subnetworks do
}


class Refused(Exception):
    """A request is answered with an error. `status` is google.rpc.Code's name."""

    def __init__(self, http: int, status: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.http, self.status, self.message, self.reason = http, status, message, reason


def missing(what: str) -> Refused:
    """Returns what is answered for what is not there."""
    return Refused(404, "NOT_FOUND", f"The resource '{what}' was not found", "notFound")


def exists(what: str) -> Refused:
    """Returns what is answered where a name is taken."""
    return Refused(409, "ALREADY_EXISTS", f"The resource '{what}' already exists", "alreadyExists")


def bad(message: str, reason: str = "invalid") -> Refused:
    """Returns what is answered to a request that is wrong."""
    return Refused(400, "INVALID_ARGUMENT", message, reason)


def in_use(what: str, by: str) -> Refused:
    """Returns what is answered to who deletes what something else needs."""
    words = f"The resource '{what}' is already being used by '{by}'"
    return Refused(400, "FAILED_PRECONDITION", words, "resourceInUseByAnotherResource")


def allowed(world: World, permission: str, what: str) -> None:
    """Refuses a caller who lacks a permission."""
    if permission in world["settings"]["forbidden"]:
        raise Refused(
            403, "PERMISSION_DENIED", f"Required '{permission}' permission for '{what}'", "forbidden"
        )


def number(world: World) -> str:
    """Returns a number that nothing else has."""
    world["next"] += 1
    return str(world["next"] + 10**9)


def begun(world: World, name: str) -> dict[str, Any]:
    """Notes an operation that is under way; returns it as it is told at first."""
    world["project"]["operations"][name] = {"due": time.time() + world["settings"]["operation_s"]}
    return {"name": name}


def is_done(world: World, name: str) -> bool:
    """Whether an operation has ended. Refuses names of none."""
    found = world["project"]["operations"].get(name)
    if found is None:
        raise missing(name)
    return bool(found["due"] <= time.time())
