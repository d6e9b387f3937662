"""Makes the Target that a TargetConfig describes."""

from __future__ import annotations

from collections.abc import Callable

from tasks.config.gke_target import GkeTargetConfig
from tasks.config.home import hosts_folder, scratch_folder
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.protocol import Target


def open_target(config: TargetConfig, say: Callable[[str], None] = lambda line: None) -> Target:
    """Returns the target. Makes nothing and asks nothing outside. `say` hears what takes long."""
    if isinstance(config, LocalTargetConfig):
        from tasks.targets.local import LocalTarget

        return LocalTarget(config, scratch_folder())
    if isinstance(config, GkeTargetConfig):
        from tasks.targets.gke import GkeTarget

        return GkeTarget(config, say=say)
    from tasks.cloud.ssh import shared_pool
    from tasks.cloud.ssh_book import AddressBook

    if isinstance(config, TpuVmTargetConfig):
        from tasks.targets.tpu_vm import TpuVmTarget

        return TpuVmTarget(config, scratch_folder(), shared_pool(), AddressBook(hosts_folder()), say=say)
    from tasks.targets.ssh import SshTarget

    return SshTarget(config, shared_pool(), AddressBook(hosts_folder()), say=say)
