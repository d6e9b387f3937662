"""For tests: a desk for environments over the stand-in, in a hurry, and an environment that is quick to make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tasks.config.environment import EnvironmentConfig
from tasks.leases import environments as kinds
from tasks.leases.claim import claim
from tasks.leases.inventory import Inventories, Pace
from tasks.leases.ledger import Ledger
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_record import about_to
from tests.cloud.container.hurried import QUICK, container
from tests.cloud.container.leasing import a_ledger, quick_inventories

LEAST = """\
region: us-east5
zone: us-east5-b
record: gs://records/environments
network: {name: net, subnet: sub}
cluster: {name: mine, private: true}
tpu: {machine_type: ct5lp-hightpu-4t, topology: 4x4}
bucket: {name: artifacts}
"""
_PACE = Pace(look_every_s=0.05, goes_within_s=600.0, remote=True)


def environment(**fields: Any) -> EnvironmentConfig:
    """Returns an environment: private nodes, one slice of v5e."""
    return EnvironmentConfig.model_validate({**yaml.safe_load(LEAST), **fields})


def owning(config: EnvironmentConfig) -> None:
    """Lets the record say that the environment has its cluster, as `env up` does before it makes that."""
    ledger = a_ledger()
    held = claim(ledger, inventories(ledger), kinds.lease_name("proj", config.called), None)
    held.stand(None)
    held.describe(about_to(held.lease.shape, config), None)
    held.detach(None)


def inventories(ledger: Ledger, scratch: Path | None = None) -> Inventories:
    """Returns every inventory; those that environments need are in a hurry."""
    hurried = {
        kind: kinds.ThingInventory(kind, ledger, pace=_PACE, settle_s=0.2, timing=QUICK)
        for kind in kinds.KINDS
    }
    return {**quick_inventories(ledger, scratch), **hurried}


def desk(say: Callable[[str], None] = lambda line: None, **more: Any) -> Desk:
    """Returns where environments are worked on, with a record in a folder of this test."""
    ledger = more.pop("ledger", None) or a_ledger()
    made = Desk("proj", ledger, inventories(ledger), container(), say, timing=QUICK, poll_s=0.01)
    return replace(made, **more)
