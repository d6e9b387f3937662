"""Orbax saves a tree to a bucket and restores it: `python -m tests.bench.orbax_gcs gs://BUCKET/FOLDER`; prints seconds.

The tree has 1 GiB in arrays of 64 MiB, each in one file.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ |= {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false", "EPATH_USE_TF": "false", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import orbax.checkpoint as ocp

ARRAYS, ROWS = 16, 16 << 10


def main(folder: str) -> None:
    """Saves and restores once, and compares."""
    random = np.random.default_rng(0)
    tree = {
        f"a{n}": jax.device_put(random.integers(0, 2**32, (ROWS, 1024), np.uint32)) for n in range(ARRAYS)
    }
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False))
    began = time.perf_counter()
    checkpointer.save(f"{folder}/tree", tree)
    saved = time.perf_counter()
    again = checkpointer.restore(f"{folder}/tree")
    restored = time.perf_counter()
    assert all(np.array_equal(tree[name], again[name]) for name in tree)
    print(json.dumps({"save": saved - began, "restore": restored - saved}))


if __name__ == "__main__":
    main(sys.argv[1])
