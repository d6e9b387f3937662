"""Kueue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cloud.kubernetes.runner import Runner

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def runners(world: World) -> list[Runner]:
    """Returns the controllers."""
    del world
    return []
