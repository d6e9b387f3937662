"""All collectors there are, in the order in which they start."""

from __future__ import annotations

import jax

from runtime.collectors.cpu_time import cpu_time
from runtime.collectors.device_memory import device_memory
from runtime.collectors.host_memory import HostMemory, peak_source
from runtime.collectors.live_arrays import live_arrays
from runtime.collectors.monitoring import Monitoring
from runtime.collectors.network import network
from runtime.collectors.own_reads import OwnReads
from runtime.collectors.process_io import process_io
from runtime.collectors.tensorstore import tensorstore
from runtime.measure import Collector


def default_collectors() -> list[Collector]:
    """Returns new collectors, every one that this machine can feed. JAX must have been initialised."""
    own = OwnReads()
    # From the costliest to the most easily disturbed: what comes last is nearest to the block.
    found: list[Collector | None] = [
        live_arrays(),
        tensorstore(),
        Monitoring(),
        device_memory(jax.local_devices()),
        network(own),
        HostMemory(peak_source(own)),
        cpu_time(),
        process_io(own),
    ]
    return [collector for collector in found if collector is not None]
