"""An account that may make an environment and nothing else: it gives no roles but those that are given there."""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.contract.errors import BadInput
from tasks.cloud import services
from tasks.cloud.container_errors import ContainerError, NotFound
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Grants
from tasks.cloud.things import ServiceAccounts, Thing
from tasks.cloud.timing import Timing
from tasks.config import patterns
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
_DESCRIPTION = "made by `slicebench env deployer`, which takes it away again with --remove"
"""By which an account is known as made here: accounts have no labels."""
_APIS = ("iam.googleapis.com", "cloudresourcemanager.googleapis.com")


def make(
    config: EnvironmentConfig,
    project: str,
    name: str,
    say: Callable[[str], None],
    timing: Timing | None = None,
) -> str:
    """Makes the account, or makes it so; returns its e-mail.

    Raises BadInput for who may not, and for a name that is of no use or another's; ContainerError.
    """
    timing = timing or Timing()
    _refuse_name(name, config)
    if off := services.off(project, _APIS, timing):
        services.turn_on(project, off, timing)
        services.once_on(timing, lambda: services.lacking(project, _NEEDED, timing))
    if missing := services.lacking(project, _NEEDED, timing):
        raise BadInput(
            f"you may not make an account and give it roles: {', '.join(missing)}",
            fix="have somebody do it who may: an owner of the project, say. Nothing was made",
        )
    accounts = ServiceAccounts(rest=Rest("iam.googleapis.com", timing=timing))
    there = accounts.look(project, name)
    if there is not None and not _is_ours(there):
        raise _others(project, name)
    if there is None:
        say(f"make service account {name}")
        shown = f"makes environment {config.called}"[:100]
        accounts.make(project, name, {"displayName": shown, "description": _DESCRIPTION}, {})
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
    """Takes the account away, with all its roles on the project; returns whether it was there.

    Raises BadInput for one that was not made here: it is left as it is.
    """
    timing = timing or Timing()
    _refuse_name(name)
    accounts = ServiceAccounts(rest=Rest("iam.googleapis.com", timing=timing))
    there = accounts.look(project, name)
    if there is not None and not _is_ours(there):
        raise _others(project, name)
    Grants("project", timing).take_all(project, f"serviceAccount:{email(name, project)}")
    if there is None:
        return False
    try:
        accounts.delete(project, name)
    except NotFound:
        return False
    return True


def _refuse_name(name: str, config: EnvironmentConfig | None = None) -> None:
    if not re.fullmatch(patterns.ACCOUNT, name):
        raise BadInput(f"--name must be {patterns.WORDS[patterns.ACCOUNT]}, not {name!r}")
    named = (
        {config.accounts.nodes.name: "nodes", config.accounts.workloads.name: "workloads"} if config else {}
    )
    if name in named:
        raise BadInput(
            f"--name {name} is the account of {named[name]}: they would get all that a deployer may do",
            fix="choose another name",
        )


def _is_ours(there: Thing) -> bool:
    return str(there.fields.get("description", "")) == _DESCRIPTION


def _others(project: str, name: str) -> BadInput:
    return BadInput(
        f"service account {email(name, project)} is there, and `env deployer` did not make it: it is left as it is",
        fix="choose another --name",
    )


def only(config: EnvironmentConfig, project: str) -> dict[str, str]:
    """Returns the condition under which roles may be given: only those that nodes and workloads get."""
    roles = sorted({str(one.fields["role"]) for one in wanted(config, project) if one.kind == "role"})
    listed = ", ".join(f"'{role}'" for role in roles)
    modified = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    return {"title": "slicebench: roles of an environment", "expression": f"{modified}.hasOnly([{listed}])"}
