"""What an environment asks for: APIs, roles and permissions follow from its file, and each is explained in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.config.environment_roles import APIS, NEEDS, ROLES_OF_ACCOUNTS, apis_for, needs_of, permissions_of
from tasks.targets.environment_wanted import wanted
from tests.tasks.config.least_environment import LEAST, loaded

DOCS = (Path(__file__).parents[3] / "docs" / "environment.md").read_text()


def test_docs_explain_every_api_role_and_permission() -> None:
    for api in APIS:
        assert f"| `{api.name}` | {api.why} |" in DOCS
    for need in NEEDS:
        words = ", ".join(f"`{one}`" for one in need.permissions)
        assert f"| `{need.role}` | {need.why} | {words} |" in DOCS
    for role, why in ROLES_OF_ACCOUNTS.items():
        assert f"| `{role}` | {why} |" in DOCS


def test_each_role_that_is_given_unasked_is_explained(tmp_path: Path) -> None:
    config = loaded(tmp_path, LEAST)
    given = {one.fields["role"] for one in wanted(config, "proj") if "role" in one.fields}
    assert given == set(ROLES_OF_ACCOUNTS)


def test_what_is_left_out_needs_no_api_and_no_role(tmp_path: Path) -> None:
    config = loaded(tmp_path, LEAST, "tensorboard=null", "registry=null", "network.iap=false")
    left = {api.name for api in APIS} - set(apis_for(config))
    assert left == {f"{one}.googleapis.com" for one in ("aiplatform", "artifactregistry", "iap")}
    unneeded = {need.part for need in NEEDS} - {need.part for need in needs_of(config)}
    assert unneeded == {"registry", "tensorboard", "existing", "router", "placement", "reservations"}


@pytest.mark.parametrize(
    ("network", "where", "used", "routed"),
    [
        ("existing: true", "proj", True, True),
        ("existing: true, nat: false", "proj", True, False),
        ("existing: true, host_project: host", "host", False, False),
        ("existing: true, nat: true", "proj", True, True),
        ("existing: true, nat: true, host_project: host", "host", False, True),
    ],
)
def test_a_network_that_is_there_needs_what_is_done_with_it(
    tmp_path: Path, network: str, where: str, used: bool, routed: bool
) -> None:
    config = loaded(tmp_path, LEAST, f"network={{name: net, subnet: sub, {network}}}", "cluster.private=true")
    needed = permissions_of(config, "proj")
    assert ("compute.subnetworks.use" in needed.get(where, ())) is used
    assert ("compute.routers.create" in needed.get(where, ())) is routed
    assert "compute.networks.create" not in {one for some in needed.values() for one in some}
