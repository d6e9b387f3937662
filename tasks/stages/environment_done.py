"""What making an environment came to: what was made, changed and taken away, its cluster and what is in it included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.lease import Lease
from tasks.leases.resource import ResourceRef
from tasks.stages.cluster_inside import Inside
from tasks.stages.environment_inside import EnvironmentInside
from tasks.targets.environment_diff import Difference, Step
from tasks.targets.kube_differs import Change

_CALLED = {CLUSTER: "cluster", POOL: "node pool"}


@dataclass(frozen=True)
class Done:
    """What `up` came to. `resources` is all that the environment has now, its cluster's own lease included."""

    made: Sequence[str]
    changed: Sequence[str]
    resources: Sequence[ResourceRef]
    stays: Sequence[str] = ()
    """What is not as the file says, and cannot be changed on what is there."""
    gone: Sequence[str] = ()
    """What the file does not name any more, and was given back."""


@dataclass(frozen=True)
class Work:
    """What was done to things of a project, to cluster and pools (`differed`), and within the cluster."""

    steps: Sequence[Step]
    differed: Mapping[str, Sequence[Difference]]
    stays: Sequence[str]
    gone: Sequence[str]
    inside: Inside | None


def done(work: Work, own: Lease, before: Lease | None, after: Lease | None) -> Done:
    """Returns all of it. `before` and `after`: the lease of the cluster."""
    there = {ref.uid for ref in before.resources} if before is not None else set()
    now = after.resources if after is not None else ()
    came = [f"{_CALLED[ref.kind]} {ref.name}" for ref in now if ref.kind in _CALLED and ref.uid not in there]
    within = work.inside.did if isinstance(work.inside, EnvironmentInside) else []
    made = [str(step.wanted) for step in work.steps if step.do == "make"]
    changed = [str(step.wanted) for step in work.steps if step.do == "change"]
    changed += [what for what, fields in work.differed.items() if any(one.can for one in fields)]
    return Done(
        [*made, *came, *_those(within, "make")],
        [*changed, *_those(within, "change")],
        [*own.resources, *now],
        work.stays,
        [*work.gone, *_those(within, "take away")],
    )


def but_for(stays: Sequence[str]) -> str:
    """Returns that some of it is not as the file says; empty: all is."""
    return f", but for what cannot be changed on what is there: {'; '.join(stays)}" if stays else ""


def _those(within: Sequence[Change], do: str) -> list[str]:
    return [one.what for one in within if one.do == do]
