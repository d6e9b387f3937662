"""The role that is told where one is missing is the one that environments are said to need for that."""

from __future__ import annotations

import pytest

from tasks.cloud.google_roles import role_for
from tasks.config.environment_roles import NEEDS, Need

_AT = {
    "regions": "regions/r",
    "instanceGroupManagers": "zones/z/instanceGroupManagers/gke-mine-cpu-grp",
    "machineTypes": "zones/z/machineTypes/n1-standard-4",
    "subnetworks": "regions/r/subnetworks/sub",
    "routers": "regions/r/routers/router",
    "networks": "global/networks/net",
    "firewalls": "global/firewalls/rule",
    "reservations": "zones/z/reservations/r",
    "resourcePolicies": "regions/r/resourcePolicies/p",
}
_APIS = {"resourcemanager": "cloudresourcemanager"}


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: f"{need.role}-{need.part}")
def test_the_role_that_is_told_is_the_one_that_docs_name(need: Need) -> None:
    looked_at = (".get", ".use", ".list", ".actAs", ".updatePolicy")
    changed = sorted(one for one in need.permissions if not one.endswith(looked_at))
    for one in changed or need.permissions:
        api, part, _ = one.split(".")
        path = f"compute/v1/projects/p/{_AT[part]}" if api == "compute" else ""
        told = role_for(_APIS.get(api, api), "POST" if changed else "GET", path)
        assert told == need.role or one.endswith("actAs")


def test_what_is_not_known_is_not_guessed() -> None:
    assert role_for("run") == "the role that it takes"
    link = "https://www.googleapis.com/compute/v1/projects/p/regions/r/routers/one"
    assert role_for("compute", path=link) == "roles/compute.networkAdmin"
    assert (
        role_for("compute", "GET", "compute/v1/projects/p/global/networks/n") == "roles/compute.networkUser"
    )
