"""What others gave beside an environment: roles and keys of its accounts, and roles of others on what is its own.

None of it is taken away, for somebody may need it; all of it is told, as it may let people in whom nobody thought of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress

from tasks.cloud.container_errors import PermissionDenied
from tasks.cloud.google_rest import Rest
from tasks.cloud.grants import Given, Grants, On
from tasks.cloud.things import ServiceAccounts
from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.resource import ResourceRef
from tasks.stages.environment_desk import KIND_OF, Desk
from tasks.targets.environment_wanted import email, wanted

_OF_THE_PROJECT = ("projectOwner:", "projectEditor:", "projectViewer:")
"""Those who have roles on each new bucket by what they are in the project."""
_EVERYBODY = ("allUsers", "allAuthenticatedUsers")


def beside(
    desk: Desk, config: EnvironmentConfig, off: frozenset[str], own: Sequence[ResourceRef] = ()
) -> list[str]:
    """Returns what others gave, a line each. `off`: kinds that cannot be looked at yet; `own`: what was made for it all
    the same. Raises ContainerError.
    """
    named = {
        (KIND_OF[one.kind], one.scope, one.name)
        for one in wanted(config, desk.project)
        if one.kind in KIND_OF
    }
    known = {*named, *((ref.kind, ref.scope, ref.name) for ref in own)}
    accounts = [email(one.name, desk.project) for one in (config.accounts.nodes, config.accounts.workloads)]
    ours = {f"serviceAccount:{one}" for one in accounts}
    found: list[str] = []
    if "role" not in off:
        given = _given(desk, "project", desk.project)
        mine = [one for one in given if one.member in ours]
        found += _told(mine, known, kinds.PROJECT_ROLE, desk.project, "the project")
    if "bucket role" not in off:
        bucket = config.bucket.name
        given = _given(desk, "bucket", bucket)
        others = [one for one in given if not one.member.startswith(_OF_THE_PROJECT)]
        found += _told(others, known, kinds.BUCKET_ROLE, bucket, f"bucket {bucket}")
    if "account role" not in off:
        for who in accounts:
            given = _given(desk, "account", who)
            where = f"service account {who.partition('@')[0]}"
            found += _told(given, known, kinds.ACCOUNT_ROLE, who, where)
            found += _keys(desk, who.partition("@")[0])
    return found


def _keys(desk: Desk, account: str) -> Iterator[str]:
    """Yields the keys of an account: by Workload Identity nobody needs one. Nothing where one may not look."""
    accounts = ServiceAccounts(rest=Rest("iam.googleapis.com", timing=desk.timing))
    with suppress(PermissionDenied):
        for one in accounts.keys(desk.project, account):
            name, until = str(one["name"]).rpartition("/")[2], str(one.get("validBeforeTime", ""))[:10]
            off = " (disabled)" if one.get("disabled") else ""
            yield (
                f"service account {account} has a key {name}{off}, valid before {until}: whoever has it acts as the "
                "account, from anywhere; not made here, and left"
            )


def _given(desk: Desk, on: On, scope: str) -> list[Given]:
    """Returns who has which role; nothing where one may not look: of what is missing, others tell."""
    try:
        return Grants(on, desk.timing).given(scope)
    except PermissionDenied:
        return []


def _told(
    given: list[Given], known: Set[tuple[str, str, str]], kind: str, scope: str, where: str
) -> Iterator[str]:
    for one in given:
        if one.condition is None and (kind, scope, f"{one.role} for {one.member}") in known:
            continue
        under = f", under the condition {one.condition!r}" if one.condition is not None else ""
        who = f"everybody ({one.member})" if one.member in _EVERYBODY else one.member
        yield f"{who} has {one.role} on {where}{under}: not given here, and left"
