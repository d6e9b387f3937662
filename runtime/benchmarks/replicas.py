"""What the benchmarks of replicas share: which devices are a replica, folders of tiers, how Orbax numbers processes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import flags
from etils import epath
from orbax.checkpoint import multihost as public_multihost
from orbax.checkpoint._src.futures import synchronization
from orbax.checkpoint._src.multihost import multihost, multislice

from runtime import distributed
from runtime.benchmarks.benchmark import Context
from runtime.contract.errors import WorkloadFailed


class NotFromThere(WorkloadFailed):
    """A restore read another tier than the one that is measured."""


def replicated_mesh(context: Context, axis: int) -> jax.sharding.Mesh:
    """Returns the point's mesh. Raises ValueError when it has none, or fewer than two replicas along `axis`."""
    mesh = context.mesh
    if mesh is None:
        raise ValueError("this benchmark needs a mesh: give mesh_config")
    if axis >= mesh.devices.ndim:
        raise ValueError(f"replica_axis_index is {axis}, and the mesh has {mesh.devices.ndim} axes")
    if mesh.devices.shape[axis] < 2:
        raise ValueError(
            f"axis {mesh.axis_names[axis]} is that of replicas, and its size is 1: there is but one"
        )
    return mesh


def arrays_only(context: Context) -> None:
    """Raises ValueError when the tree has leaves that lie on no device: they have no replicas."""
    for leaf in jax.tree.leaves(context.tree):
        if not isinstance(leaf, jax.Array):
            raise ValueError(f"the tree holds {leaf!r}, and only arrays have replicas: remove it from spec")


def own_replica(mesh: jax.sharding.Mesh, axis: int) -> jax.sharding.Mesh:
    """Returns the part of the mesh that is the replica of this process."""
    devices = multislice.local_replica_devices(mesh, replica_axis_index=axis)
    return jax.sharding.Mesh(np.expand_dims(devices, axis), mesh.axis_names)


def is_in(mesh: jax.sharding.Mesh, axis: int, replica: int) -> bool:
    """Whether this process belongs to a replica."""
    found: bool = multislice.in_replica(
        multihost.process_index(), mesh, replica_id=replica, replica_axis_index=axis
    )
    return found


def make_tiers(context: Context, name: str) -> tuple[epath.Path, epath.Path]:
    """Makes this host's local folder and the one that all share, on all workers; returns them in this order."""
    shared = context.path / name / "persistent"
    if context.local_path is not None:
        local = context.local_path / name
    else:
        local = context.path / name / f"local_{jax.process_index()}"
    if jax.process_index() == 0:
        shared.mkdir(parents=True, exist_ok=True)
    local.mkdir(parents=True, exist_ok=True)
    public_multihost.sync_global_processes(f"tiers_of_{name}")
    return local, shared


def newest_in(shared: epath.Path) -> int:
    """Returns the newest step in storage that all share. Raises RuntimeError when there is none."""
    steps = [int(path.name) for path in shared.iterdir() if path.name.isdigit()]
    if not steps:
        raise RuntimeError("no step was saved into the storage that all share")
    return max(steps)


@contextlib.contextmanager
def watched(target: Any, *names: str) -> Iterator[list[str]]:
    """Yields the names of these methods of `target`, as they are called: how Orbax restored, it does not tell."""
    used: list[str] = []

    def noted(name: str, real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            used.append(name)
            return real(*arguments, **more)

        return call

    try:
        for name in names:
            setattr(target, name, noted(name, getattr(target, name)))
        yield used
    finally:
        for name in names:
            vars(target).pop(name, None)


def expect_used(used: Sequence[str], expected: Sequence[str]) -> None:
    """Raises NotFromThere where a restore went another way."""
    if list(used) != list(expected):
        wanted, told = (", ".join(name.lstrip("_") for name in names) or "none" for names in (expected, used))
        raise NotFromThere(f"the restore was to go by {wanted}, and went by {told}")


@contextlib.contextmanager
def numbered(*, by_distributed_id: bool, meshes_by_distributed_id: bool | None = None) -> Iterator[None]:
    """Lets Orbax number processes as asked for while inside; afterwards as before.

    Orbax has switches of the command line for it, and heeds them only once a command line was read.
    """
    import orbax.checkpoint.experimental.emergency.multihost  # noqa: F401 (defines the second switch)

    known = flags.FLAGS
    wanted: dict[str, Any] = {"experimental_orbax_use_distributed_process_id": by_distributed_id}
    if meshes_by_distributed_id is not None:
        wanted["experimental_use_distributed_id_for_mesh_consistency"] = meshes_by_distributed_id
    was_parsed = known.is_parsed()
    known.mark_as_parsed()
    before = {name: known[name].value for name in wanted}
    try:
        for name, value in wanted.items():
            known[name].value = value
        _introduce()
        yield
    finally:
        for name in wanted:
            known[name].value = before[name]
        if not was_parsed:
            known.unparse_flags()


def fall_in_step() -> None:
    """Lets Orbax number the next operation alike on all workers again; to be called by all of them.

    Where replicas save into tiers of their own, each does another number of operations, and Orbax's barriers bear those
    numbers: the next save of all together would wait forever.
    """
    numbers = synchronization.OperationIdGenerator
    newest = distributed.largest(int(numbers.get_current_operation_id()))
    numbers._operation_id_counter = itertools.count(newest + 1)
    numbers._operation_id = newest


def _introduce() -> None:
    """Lets all processes know each other's numbers, once."""
    if jax.process_count() == 1:
        return
    if not multihost.is_runtime_to_distributed_ids_initialized():
        multihost.initialize_runtime_to_distributed_ids()
    if not multihost.is_distributed_to_device_ids_initialized():
        multihost.initialize_distributed_to_device_ids()
