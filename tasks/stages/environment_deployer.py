"""An account that may make an environment and nothing else: it gives no roles but those that are given there."""

from __future__ import annotations

from collections.abc import Callable

from runtime.contract.errors import BadInput
from tasks.cloud import services
from tasks.cloud.container_errors import ContainerError, NotFound
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.cloud.things import ServiceAccounts
from tasks.cloud.timing import Timing
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_roles import needs_of
from tasks.targets.environment_wanted import email, wanted

_GIVES_ROLES = "roles/resourcemanager.projectIamAdmin"
_NEEDED = (
    "iam.serviceAccounts.create",
    "iam.serviceAccounts.get",
    "resourcemanager.projects.getIamPolicy",
    "resourcemanager.projects.setIamPolicy",
)
_APIS = ("iam.googleapis.com", "cloudresourcemanager.googleapis.com")


def make(
    config: EnvironmentConfig,
    project: str,
    name: str,
    say: Callable[[str], None],
    timing: Timing | None = None,
) -> str:
    """Makes the account, or makes it so; returns its e-mail. Raises BadInput for who may not, ContainerError."""
    timing = timing or Timing()
    if off := services.off(project, _APIS, timing):
        services.turn_on(project, off, timing)
        services.once_on(timing, lambda: services.lacking(project, _NEEDED, timing))
    if missing := services.lacking(project, _NEEDED, timing):
        raise BadInput(
            f"you may not make an account and give it roles: {', '.join(missing)}",
            fix="have somebody do it who may: an owner of the project, say. Nothing was made",
        )
    accounts = ServiceAccounts(rest=Rest("iam.googleapis.com", timing=timing))
    if accounts.look(project, name) is None:
        say(f"make service account {name}")
        described = {
            "description": "made by `slicebench env deployer`, which takes it away again with --remove"
        }
        accounts.make(
            project, name, {"displayName": f"makes environment {config.called}"[:100], **described}, {}
        )
    try:
        return _give(config, project, name, say, timing)
    except ContainerError:
        say(f"{name} is there, without all of its roles: the same again goes on, --remove takes it away")
        raise


def _give(
    config: EnvironmentConfig, project: str, name: str, say: Callable[[str], None], timing: Timing
) -> str:
    who, grants = email(name, project), Grants("project", timing)
    host = config.network.host_project
    for need in needs_of(config):
        if need.of_network and host:
            say(f"give it {need.role} in project {host} yourself: it {need.why}")
        elif need.role == _GIVES_ROLES:
            if grants.give_within(project, need.role, f"serviceAccount:{who}", only(config, project)):
                say(f"give it {need.role}, for the roles of nodes and workloads alone: it {need.why}")
        elif grants.look(project, f"{need.role} for serviceAccount:{who}") is None:
            say(f"give it {need.role}, which {need.why}")
            grants.make(project, f"{need.role} for serviceAccount:{who}", {}, {})
    return who


def remove(project: str, name: str, timing: Timing | None = None) -> bool:
    """Takes the account away, with all its roles on the project; returns whether it was there."""
    timing = timing or Timing()
    accounts = ServiceAccounts(rest=Rest("iam.googleapis.com", timing=timing))
    Grants("project", timing).take_all(project, f"serviceAccount:{email(name, project)}")
    if accounts.look(project, name) is None:
        return False
    try:
        accounts.delete(project, name)
    except NotFound:
        return False
    return True


def only(config: EnvironmentConfig, project: str) -> dict[str, str]:
    """Returns the condition under which roles may be given: only those that nodes and workloads get."""
    roles = sorted({str(one.fields["role"]) for one in wanted(config, project) if one.kind == "role"})
    listed = ", ".join(f"'{role}'" for role in roles)
    modified = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    return {"title": "slicebench: roles of an environment", "expression": f"{modified}.hasOnly([{listed}])"}
