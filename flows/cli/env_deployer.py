"""`slicebench env deployer`: an account that may make an environment, and nothing else."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.cli.env import File, Project, Set, read
from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import ExitCode


def deployer(
    file: File,
    /,
    *,
    name: Annotated[str, Parameter(help="Id of the account, before the @")] = "slicebench-deployer",
    remove: Annotated[bool, Parameter(negative="", help="Delete it, with all its roles")] = False,
    set: Set = (),
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Create a service account with just the roles that `up` and `down` need; it can grant only what they grant."""
    show_calls(verbose)
    config = read(file, set)
    from tasks.stages import environment_deployer as accounts
    from tasks.stages.environment_desk import project_of
    from tasks.targets.environment_wanted import email

    where = project_of(config, project)
    was_there = False
    if remove:
        was_there = accounts.remove(where, name)
        who = email(name, where)
        say(f"{who} {'is gone, with all its roles' if was_there else 'was not there; it has no roles'}")
    else:
        who = accounts.make(config, where, name, say)
        say(f"use it: gcloud auth application-default login --impersonate-service-account={who}")
        say(
            f"this takes roles/iam.serviceAccountTokenCreator on it, even for owners: gcloud iam "
            f"service-accounts add-iam-policy-binding {who} --role=roles/iam.serviceAccountTokenCreator "
            "--member=user:YOU"
        )
    if json:
        print_json({"account": who, "removed": was_there})
    return ExitCode.DONE
