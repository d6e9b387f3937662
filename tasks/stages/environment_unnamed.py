"""What was made for an environment and its file does not name any more: given back where nothing is lost, else told.

A role goes, as the file says who may do what; so does what leads into the network or out of it. What people's data
are in stays until the environment goes, and so does what machines still run with: an account of another name, and the
roles of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tasks.cloud.grants import parts
from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.holding import Holding
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import latest
from tasks.leases.resource import ResourceRef
from tasks.stages.environment_desk import KIND_OF, Desk
from tasks.targets.environment_diff import Step
from tasks.targets.environment_wanted import email, wanted

_WAYS = (kinds.FIREWALL, kinds.ROUTER)
_CALLED = {kind: what for what, kind in KIND_OF.items()}


@dataclass(frozen=True)
class Unnamed:
    """One thing of the record. `goes`: the next `up` gives it back."""

    ref: ResourceRef
    goes: bool

    def __str__(self) -> str:
        return f"{_CALLED[self.ref.kind]} {self.ref.name}"

    @property
    def told(self) -> str:
        """It with where it is, by which alone it may be told from what the file names."""
        place = self.ref.scope if self.ref.kind == kinds.BUCKET_ROLE else self.ref.scope.partition("/")[2]
        return f"{self}{f' in {place}' if place else ''}"


def unnamed(desk: Desk, config: EnvironmentConfig) -> list[Unnamed]:
    """Returns what the record has beyond what the file names."""
    lease = latest(desk.ledger, kinds.lease_name(desk.project, config.called))
    return list(_beyond(desk, config, lease)) if lease is not None and lease.state is not State.GONE else []


def give_back_unnamed(desk: Desk, config: EnvironmentConfig, holding: Holding) -> list[str]:
    """Gives back of it what may go, and returns that. Raises Leaked for what cannot be seen to be gone."""
    return list(_give_back(desk, config, holding, lambda one: True))


def make_way(desk: Desk, config: EnvironmentConfig, holding: Holding, steps: Sequence[Step]) -> list[str]:
    """Gives back what must be gone before another of its kind can be made: of NATs for all there is one in a network.

    Returns that. Raises Leaked.
    """
    made = {KIND_OF[one.wanted.kind] for one in steps if one.do == "make"}
    return list(_give_back(desk, config, holding, lambda one: one.ref.kind in made & {kinds.ROUTER}))


def _give_back(
    desk: Desk, config: EnvironmentConfig, holding: Holding, meant: Callable[[Unnamed], bool]
) -> Iterator[str]:
    for one in list(_beyond(desk, config, holding.lease)):
        if one.goes and meant(one):
            desk.say(f"give back {one.told}: the file does not name it any more")
            holding.discard(one.ref)
            yield str(one)


def _beyond(desk: Desk, config: EnvironmentConfig, lease: Lease) -> Iterator[Unnamed]:
    asked = {
        (KIND_OF[one.kind], one.scope, one.name)
        for one in wanted(config, desk.project)
        if one.kind in KIND_OF
    }
    kept = {
        (kind, scope) for kind, scope, _ in asked if kind in kinds.NAMELESS
    }  # only called otherwise by now
    named = {email(one.name, desk.project) for one in (config.accounts.nodes, config.accounts.workloads)}
    for ref in lease.resources:
        if (
            ref.ours
            and ref.uid is not None
            and ref.kind in _CALLED
            and (ref.kind, ref.scope, ref.name) not in asked
            and (ref.kind, ref.scope) not in kept
        ):
            yield Unnamed(ref, ref.kind in _WAYS or (ref.kind in kinds.ROLES and _whose(ref) in named))


def _whose(ref: ResourceRef) -> str:
    """Returns the account that a role is of: for one on an account, that itself."""
    if ref.kind == kinds.ACCOUNT_ROLE:
        return ref.scope
    return parts(ref.name)[1].removeprefix("serviceAccount:")
