"""Meshes are laid out as Orbax lays them out, and what does not fit says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from runtime.contract.suite import MeshSpec
from runtime.mesh import make_mesh


@dataclass(frozen=True)
class Device:
    """What mesh code reads of a device."""

    id: int
    process_index: int = 0
    slice_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"


def cpus(processes: int, each: int) -> list[jax.Device]:
    """Devices in an order that is not that of their processes."""
    made: Any = [Device(process * each + i, process) for i in range(each) for process in range(processes)]
    return list(made)


@pytest.fixture(autouse=True)
def mesh_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a mesh hold stand-ins: only their layout is looked at."""

    @dataclass
    class Mesh:
        devices: np.ndarray
        axis_names: tuple[str, ...]

    monkeypatch.setattr(jax.sharding, "Mesh", Mesh)


def ids(mesh: jax.sharding.Mesh) -> list[list[int]]:
    return [[device.id for device in row] for row in mesh.devices]


def test_dcn_on_cpu_lays_processes_side_by_side() -> None:
    spec = MeshSpec(("data", "model"), {"model": 2}, {"data": 3})
    assert ids(make_mesh(spec, cpus(3, 2))) == [[0, 1], [2, 3], [4, 5]]


def test_ici_and_dcn_multiply_axis_by_axis() -> None:
    spec = MeshSpec(("data", "model"), {"data": 2, "model": 2}, {"data": 2})
    assert make_mesh(spec, cpus(2, 4)).devices.shape == (4, 2)


def test_process_is_granule_changes_nothing_on_cpu() -> None:
    spec = MeshSpec(("data",), {}, {"data": 4}, process_is_granule=True)
    assert make_mesh(spec, cpus(2, 2)).devices.shape == (4,)


def test_an_axis_without_size_has_size_one() -> None:
    spec = MeshSpec(("data", "stage", "model"), {"model": 4}, {})
    assert make_mesh(spec, cpus(1, 4)).devices.shape == (1, 1, 4)


@pytest.mark.parametrize("dcn", [None, {"data": 2}])
def test_a_mesh_of_another_size_is_refused_with_both_numbers(dcn: dict[str, int] | None) -> None:
    spec = MeshSpec(("data", "model"), {"model": 8}, dcn)
    with pytest.raises(ValueError, match="there are 4"):
        make_mesh(spec, cpus(1, 4))


def tpus(slices: int, each: int) -> list[jax.Device]:
    made: Any = [
        Device(s * each + i, s, s, "gpu", "a card without coordinates")
        for s in range(slices)
        for i in range(each)
    ]
    return list(made)


def test_hybrid_mesh_puts_dcn_across_slices() -> None:
    spec = MeshSpec(("data", "model"), {"model": 2}, {"data": 2})
    assert ids(make_mesh(spec, tpus(2, 2))) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("ici", "dcn", "reason"),
    [
        ({"model": 2}, {"data": 3}, "spans 3 slices"),
        ({"model": 4}, {"data": 2}, "needs 4 devices in each slice"),
    ],
)
def test_hybrid_mesh_of_another_size_is_refused(
    ici: dict[str, int], dcn: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        make_mesh(MeshSpec(("data", "model"), ici, dcn), tpus(2, 2))


def test_process_is_granule_counts_processes() -> None:
    spec = MeshSpec(("data", "model"), {"model": 2}, {"data": 3}, process_is_granule=True)
    with pytest.raises(ValueError, match="spans 3 process"):
        make_mesh(spec, tpus(2, 2))
