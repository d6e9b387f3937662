"""What the benchmarks share that read a checkpoint which is there: how it is to lie, and the proof of what was read."""

from __future__ import annotations

from typing import Any

import jax
from etils import epath
from orbax.checkpoint import v1 as ocp

from runtime import pytree
from runtime.checksum import checksums
from runtime.contract.errors import WorkloadFailed
from runtime.verify import NotEqual


class NoReference(WorkloadFailed):
    """What was to be read, or to be compared with, is not there."""


def metadata_of(path: str) -> Any:
    """Returns the tree of what a checkpoint holds, shapes and dtypes. Raises NoReference when there is none."""
    if not epath.Path(path).exists():
        raise NoReference(f"there is no checkpoint at {path}")
    return ocp.metadata(path).metadata


def target_of(path: str, shardings: str, devices: Any = None) -> pytree.Tree:
    """Returns what a checkpoint holds, to be laid over `devices`, all by default, as the JSON file `shardings` says."""
    file = epath.Path(shardings)
    if not file.exists():
        raise NoReference(f"there is no file of shardings at {shardings}")
    return pytree.by_config(file.read_text(), metadata_of(path), devices)


def load(path: str, target: pytree.Tree) -> pytree.Tree:
    """Loads a checkpoint, and returns when all of it is on the devices."""
    loaded: pytree.Tree = ocp.load(path, abstract_state=target)
    return jax.block_until_ready(loaded)


def check_shardings(target: pytree.Tree, loaded: pytree.Tree) -> None:
    """Raises NotEqual when an array does not lie as it was asked to."""
    for (path, wanted), got in zip(
        jax.tree_util.tree_flatten_with_path(target)[0], jax.tree.leaves(loaded), strict=True
    ):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            raise NotEqual(
                f"{name} came back as {got.dtype}{list(got.shape)} for {wanted.dtype}{list(wanted.shape)}"
            )
        if not got.sharding.is_equivalent_to(wanted.sharding, got.ndim):
            raise NotEqual(f"{name} lies as {got.sharding} and was to lie as {wanted.sharding}")


class Known:
    """What a checkpoint holds, by a load of its own in which every array lies as wide as it can; made once."""

    def __init__(self) -> None:
        self._sums: dict[str, int] | None = None

    def check(self, path: str, target: pytree.Tree, loaded: pytree.Tree) -> None:
        """Proves that `loaded` is what the checkpoint holds, and lies as `target` says. Raises NotEqual."""
        check_shardings(target, loaded)
        sums = checksums(loaded)
        if self._sums is None:
            whole = load(path, pytree.as_wide_as_possible(metadata_of(path)))
            self._sums = checksums(whole)
            pytree.free(whole)
        if self._sums.keys() != sums.keys():
            raise NotEqual(f"{', '.join(sorted(self._sums.keys() ^ sums.keys()))} are not in both loads")
        wrong = next((name for name, one in self._sums.items() if sums[name] != one), None)
        if wrong is not None:
            raise NotEqual(f"{wrong} came back as something else than a load with other shardings gave")
