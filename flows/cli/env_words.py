"""What `slicebench env` says at its end: as what an environment is now, where one sees it, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from flows.cli.said import say
from runtime.contract.counting import counted
from runtime.contract.errors import InfrastructureError

if TYPE_CHECKING:
    from tasks.config.environment import EnvironmentConfig
    from tasks.stages.environment_desk import Desk


_FEW = 4
"""So many things are named."""


def as_said(file: str, overrides: Sequence[str], stays: Sequence[str] = ()) -> str:
    """Returns what an environment is like, for people. `stays`: what of it could not be made so."""
    from tasks.stages.environment_done import but_for

    return f"{file} says" + (f" with {', '.join(overrides)}" if overrides else "") + but_for(stays)


def links(config: EnvironmentConfig, project: str) -> dict[str, str]:
    """Returns pages of the console about an environment, by what they show."""
    from tasks.config.environment_cluster import cluster_of
    from tasks.explain import kube_links as to

    place = to.GkePlace(project, cluster_of(config, project).location, config.cluster.name)
    found = {
        "cluster": to.cluster_link(place),
        "metrics": to.metrics_link(place),
        "logs": to.cluster_logs_link(place),
        "bucket": to.bucket_link(place, config.bucket.name),
    }
    if config.registry is not None:
        there = config.registry.location or config.region
        found["images"] = to.registry_link(place, there, config.registry.name)
    if config.tensorboard is not None:
        found["tensorboard"] = to.tensorboards_link(place)
    return found


@contextmanager
def left_behind(desk: Callable[[], Desk], config: EnvironmentConfig, file: str) -> Iterator[None]:
    """Says of a block that does not end well what stays, and which command goes on or gives it back."""
    try:
        yield
    except BaseException as ended_by:
        with suppress(InfrastructureError):  # why it ended is what matters
            if _has_begun(ended_by) and (left := _left(desk(), config)):
                named = ", ".join(left[:_FEW]) + (" …" if len(left) > _FEW else "")
                things = f"{counted(len(left), 'thing')} of environment {config.called} ({named})"
                one = len(left) == 1
                stays = f"{things} {'stays, is' if one else 'stay, are'} recorded, and may cost"
                say(f"{stays}: `slicebench env up {file}` goes on, `slicebench env down {file}` ends it")
        raise


def _has_begun(ended_by: BaseException) -> bool:
    from runtime.contract.errors import BadInput
    from tasks.leases.holding import Taken

    return not isinstance(ended_by, BadInput | Taken)


def _left(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns what the record still has of an environment and its cluster."""
    from tasks.leases.clusters import lease_name as cluster_lease
    from tasks.leases.environments import lease_name
    from tasks.leases.lease import State
    from tasks.leases.ledger import latest

    names = lease_name(desk.project, config.called), cluster_lease(desk.project, config.cluster.name)
    leases = [lease for one in names if (lease := latest(desk.ledger, one)) and lease.state is not State.GONE]
    return [f"{ref.kind} {ref.name}" for lease in leases for ref in lease.resources if ref.ours]
