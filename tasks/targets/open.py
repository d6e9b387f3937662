"""Makes the Target that a TargetConfig describes."""

from __future__ import annotations

from tasks.config.home import hosts_folder, scratch_folder
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.targets.protocol import Target


def open_target(config: TargetConfig) -> Target:
    """Returns the target. Makes nothing and asks nothing outside."""
    if isinstance(config, LocalTargetConfig):
        from tasks.targets.local import LocalTarget

        return LocalTarget(config, scratch_folder())
    from tasks.cloud.ssh import shared_pool
    from tasks.cloud.ssh_book import AddressBook
    from tasks.targets.ssh import SshTarget

    return SshTarget(config, shared_pool(), AddressBook(hosts_folder()))
