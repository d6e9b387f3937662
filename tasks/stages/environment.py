"""Environments: what one is made of, what it needs and costs, before anything is asked of the project."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.cloud.google_place import choose_project
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_roles import Need, needs_of
from tasks.targets.cluster_price import price_of
from tasks.targets.environment_wanted import Wanted, wanted


@dataclass(frozen=True)
class Preview:
    """An environment as it is to be. `price_per_hour` is of its TPUs, in US dollars; None: not known."""

    name: str
    project: str
    record: str
    wanted: Sequence[Wanted]
    needs: Sequence[Need]
    hosts_per_pool: int
    chips: int
    price_per_hour: float | None
    warnings: Sequence[str] = ()


def preview(
    config: EnvironmentConfig, project: str | None = None, environ: Mapping[str, str] = os.environ
) -> Preview:
    """Returns what an environment would be. Asks nobody. Raises BadInput where no project is named."""
    chosen = choose_project(project or config.project, environ).value
    cluster, shape = cluster_of(config, chosen), config.shape
    return Preview(
        name=config.called,
        project=chosen,
        record=config.record,
        wanted=wanted(config, chosen),
        needs=needs_of(config),
        hosts_per_pool=shape.hosts,
        chips=shape.chips * config.tpu_pools,
        price_per_hour=price_of(cluster) if config.tpu_pools else 0.0,
        warnings=tuple(one.what for one in cluster.warnings()),
    )
