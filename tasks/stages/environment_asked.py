"""What is made under an environment's own lease: all that its file comes to, but a NAT that its network has already."""

from __future__ import annotations

from tasks.config.environment import EnvironmentConfig
from tasks.stages.environment_desk import KIND_OF, Desk
from tasks.stages.environment_way_out import nat_of_others
from tasks.targets.environment_wanted import Wanted, wanted


def asked(desk: Desk, config: EnvironmentConfig) -> list[Wanted]:
    """Returns it, in the order of making. Raises ContainerError."""
    left_out = "router" if nat_of_others(desk, config) else ""
    found = (one for one in wanted(config, desk.project) if one.kind in KIND_OF)
    return [one for one in found if one.kind != left_out]
