"""One of several processes that save a tree by Orbax and restore it: `python orbax_by_four.py N OF PORT gs://BUCKET/FOLDER`.

The environment says where the store is. What is restored is compared bit by bit in each process.
"""

from __future__ import annotations

import os
import sys

os.environ |= {"EPATH_USE_TF": "false", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WAYS = ((True, False), (True, True), (False, False), (False, True))
"""OCDBT or not, Zarr 3 or not."""


def main(number: int, count: int, port: str, folder: str) -> None:
    """Saves and restores in each way."""
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=number)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    random = np.random.default_rng(5)
    whole = {
        "large": random.integers(0, 2**32, (1024, 512), np.uint32),  # 2 MiB: shards of several segments
        "bits": random.integers(0, 2**16, (8, 24), np.uint16).view(jax.numpy.bfloat16),
        "one": random.normal(size=(4,)).astype(np.float32),
        "same": random.normal(size=(3, 5)).astype(np.float32),
    }
    split, same = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    tree = {
        name: jax.make_array_from_callback(
            value.shape, same if name == "same" else split, lambda index, value=value: value[index]
        )
        for name, value in whole.items()
    }
    for ocdbt, zarr3 in WAYS:
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
        checkpointer = ocp.Checkpointer(handler)
        place = f"{folder}/{'ocdbt' if ocdbt else 'files'}-{'zarr3' if zarr3 else 'zarr'}"
        checkpointer.save(place, tree)
        arguments = ocp.checkpoint_utils.construct_restore_args(tree)
        again = checkpointer.restore(place, restore_args=arguments)
        for name, value in whole.items():
            for shard in again[name].addressable_shards:
                assert np.asarray(shard.data).tobytes() == value[shard.index].tobytes(), (place, name)
        print(f"{number}: {place} is bit-equal", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
