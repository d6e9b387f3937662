"""Makes the Target that a TargetConfig describes."""

from __future__ import annotations

from tasks.config.home import scratch_folder
from tasks.config.target import TargetConfig
from tasks.targets.protocol import Target


def open_target(config: TargetConfig) -> Target:
    """Returns the target. Makes nothing and asks nothing outside."""
    from tasks.targets.local import LocalTarget

    return LocalTarget(config, scratch_folder())
