"""Which role lets one do what a call to one of Google's APIs does: told where the call is refused for want of one.

As docs/environment.md has them; a test holds them against what environments need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMPUTE = re.compile(
    r"compute/v1/projects/[^/]+/(?:global|aggregated|regions/[^/]+|zones/[^/]+)(?:/(?P<part>\w+))?"
)

_OF_API: Mapping[str, str] = {
    "container": "roles/container.admin",
    "compute": "roles/compute.instanceAdmin.v1",
    "iam": "roles/iam.serviceAccountAdmin",
    "cloudresourcemanager": "roles/resourcemanager.projectIamAdmin",
    "serviceusage": "roles/serviceusage.serviceUsageAdmin",
    "storage": "roles/storage.admin",
    "artifactregistry": "roles/artifactregistry.admin",
    "aiplatform": "roles/aiplatform.user",
    "monitoring": "roles/monitoring.viewer",
}
_OF_NETWORKS: Mapping[str, str] = {
    "networks": "roles/compute.networkAdmin",
    "subnetworks": "roles/compute.networkAdmin",
    "routers": "roles/compute.networkAdmin",
    "firewalls": "roles/compute.securityAdmin",
}
_SEEN_BY_USERS = ("networks", "subnetworks")
"""What is looked at also where it is another's: a role that changes nothing of it is enough for that."""
_NAMED = re.compile(r"\b(?:permission|required) ['\"`][a-z]\w*(?:\.\w+)+['\"`]", re.IGNORECASE)
"""How Google says which permission it was: then it knows the caller, and the API is on."""
_LOOKED_AT = ("", "instanceGroupManagers", "machineTypes", "reservations")
"""What is never changed: regions, their machines, what others reserved, and GKE's groups of machines."""


def role_for(api: str, method: str = "POST", path: str = "") -> str:
    """Returns the least role that lets one send such a request, or "the role that it takes" for an API not known."""
    usual = _OF_API.get(api, "the role that it takes")
    match = _COMPUTE.search(path) if api == "compute" else None
    if match is None:
        return usual
    part = match["part"] or ""
    if part in _LOOKED_AT:
        return "roles/compute.viewer"
    if part in _SEEN_BY_USERS and method == "GET":
        return "roles/compute.networkUser"
    return _OF_NETWORKS.get(part, usual)


def way_in(message: str, api: str, role: str) -> str:
    """Returns what lets one do what an API refused with `message`; a role alone where that names a permission."""
    if _NAMED.search(message):
        return f"grant {role}"
    return f"log in (gcloud auth application-default login), enable {api}.googleapis.com, or grant {role}"
