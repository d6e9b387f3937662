"""The suites that our worker and Orbax's own runner both run: two points, in Orbax's format."""

from __future__ import annotations

from pathlib import Path

DEVICES = 4
POINTS = 2

_SUITE = """
suite_name: {name}
num_repeats: {repeats}
mesh_config: {{mesh_axes: [data, model], ici_parallelism: {{data: 2, model: 2}}}}
checkpoint_config:
  spec:
{arrays}
benchmarks:
  - generator: orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark
    options: {{use_ocdbt: [true, false], use_zarr3: true}}
"""


def suite(folder: Path, name: str, *, repeats: int, arrays: int, rows: int) -> Path:
    """Writes a suite of two points that saves `arrays` arrays of `rows` KiB each."""
    lines = [
        f"    w{i}: {{dtype: float32, shape: [{rows}, 256], sharding: [data, model]}}" for i in range(arrays)
    ]
    path = folder / f"{name}.yaml"
    path.write_text(_SUITE.format(name=name, repeats=repeats, arrays="\n".join(lines)))
    return path
