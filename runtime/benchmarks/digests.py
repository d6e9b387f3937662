"""SHA-256 of every leaf that a worker holds, in the format of Orbax's own benchmarks: theirs and ours compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from etils import epath

from runtime.benchmarks.references import NoReference
from runtime.verify import NotEqual


def digests_of(tree: Any) -> dict[str, str]:
    """Returns the digest of each leaf by its key path: of dtype, shape and bytes of what this worker holds of it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path) or "<root>": _digest(_held(leaf)) for path, leaf in leaves}


def capture(folder: str, tree: Any) -> None:
    """Writes this worker's digests."""
    file = _file(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(digests_of(tree), indent=2))


def compare(folder: str, tree: Any) -> None:
    """Proves that the tree is what was captured. Raises NoReference when nothing was, NotEqual when it is not."""
    file = _file(folder)
    try:
        known = json.loads(file.read_text())
    except FileNotFoundError:
        known = None
    except ValueError as error:
        raise NoReference(f"{file} holds no digests: {error}") from error
    if not isinstance(known, Mapping) or not known:
        raise NoReference(f"there are no digests at {file}: nothing to compare with")
    found = digests_of(tree)
    if known.keys() != found.keys():
        raise NotEqual(f"{', '.join(sorted(known.keys() ^ found.keys()))} are not both in {file} and loaded")
    wrong = next((name for name, digest in known.items() if found[name] != digest), None)
    if wrong is not None:
        raise NotEqual(f"{wrong} is not what {file} has the digest of")


def _file(folder: str) -> epath.Path:
    return epath.Path(folder) / f"host_{jax.process_index():05d}.json"


def _digest(array: np.ndarray) -> str:
    digest = hashlib.sha256(array.dtype.str.encode())
    digest.update(repr(array.shape).encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


def _held(leaf: Any) -> np.ndarray:
    """Returns the parts that this worker holds, one after another in order of their places."""
    if not isinstance(leaf, jax.Array):
        return np.ascontiguousarray(leaf)
    shards = sorted(leaf.addressable_shards, key=lambda shard: _place(shard.index))
    if not shards:
        return np.zeros((0,), np.float32)
    return np.ascontiguousarray(np.concatenate([np.asarray(shard.data).ravel() for shard in shards]))


def _place(index: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(each.start or 0 for each in index)
