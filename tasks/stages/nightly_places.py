"""What hardware a target stands for: cells on the same do not run at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.config.gke_target import GkeTargetConfig
from tasks.config.nightly_cells import Cell
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig

Places = frozenset[str]
"""Names of what a run has for itself."""


def places_of(name: str, target: TargetConfig) -> Places:
    """Returns the places of a target; `name` is what the nightly calls it.

    What is made for a run alone is a place by its target's name: two at once may be more than the quota allows.
    """
    if isinstance(target, LocalTargetConfig):
        return frozenset({"this machine"})
    if isinstance(target, SshTargetConfig):
        return frozenset(f"host {host.address}" for host in target.hosts)
    if isinstance(target, TpuVmTargetConfig):
        return frozenset({f"tpu {target.existing}" if target.existing else f"target {name}"})
    assert isinstance(target, GkeTargetConfig)
    if target.cluster is not None:
        return frozenset({f"cluster {target.cluster.name}"})
    return frozenset({f"context {target.context}"})


def lanes(cells: Sequence[tuple[Cell, Places]]) -> list[list[Cell]]:
    """Returns the cells in lanes, which may go side by side; within each one comes after the other, in order."""
    found: list[tuple[set[str], list[int]]] = []
    for number, (_, places) in enumerate(cells):
        met = [lane for lane in found if lane[0] & places]
        joined = set(places).union(*(lane[0] for lane in met))
        members = sorted([number, *(one for lane in met for one in lane[1])])
        found = [lane for lane in found if lane not in met] + [(joined, members)]
    return [
        [cells[number][0] for number in members] for _, members in sorted(found, key=lambda lane: lane[1])
    ]
