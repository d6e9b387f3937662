"""What JAX alone takes to start: processes that find each other and add two arrays, and nothing of ours."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

_BARE = """
import sys, jax
where, worker, workers = sys.argv[1:]
jax.distributed.initialize(where, int(workers), int(worker))
jax.block_until_ready(jax.numpy.ones(8) + 1)
assert jax.device_count() == int(workers)
"""


def bare_jax(workers: int) -> float:
    """Returns the seconds until so many JAX processes have found each other and computed something."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        where = f"127.0.0.1:{probe.getsockname()[1]}"
    begin = time.monotonic()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _BARE, where, str(worker), str(workers)],
            env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for worker in range(workers)
    ]  # fmt: skip
    told = [process.communicate(timeout=300)[1] for process in processes]
    took = time.monotonic() - begin
    assert not any(process.returncode for process in processes), told
    return took
