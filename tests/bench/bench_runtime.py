"""Our worker against Orbax's own runner: as shipped, and with TensorFlow stubbed out. Same suite, same venv."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.bench.bars import Bar, bar
from tests.bench.peers import Passage, environment_python, run_orbax, run_ours

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
DEVICES = 4
OPERATIONS = ("save", "wait_until_finished", "restore")

SUITE = """
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
    path.write_text(SUITE.format(name=name, repeats=repeats, arrays="\n".join(lines)))
    return path


def measure() -> list[Bar]:
    """Runs all rounds and returns the bars of the runtime."""
    python = environment_python()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        tiny = suite(folder, "tiny", repeats=3, arrays=4, rows=256)
        medium = suite(folder, "medium", repeats=4, arrays=8, rows=16384)
        start_up = _rounds(
            "six tiny points",
            folder,
            {
                "ours": lambda out: run_ours(python, tiny, DEVICES, out),
                "stubbed": lambda out: run_orbax(python, tiny, DEVICES, out, stubbed=True),
                "shipped": lambda out: run_orbax(python, tiny, DEVICES, out, stubbed=False),
            },
        )
        bars = list(_start_up_bars(start_up))
        agreement = _rounds(
            "128 MiB",
            folder,
            {
                "ours": lambda out: run_ours(python, medium, DEVICES, out),
                "stubbed": lambda out: run_orbax(python, medium, DEVICES, out, stubbed=True),
            },
        )
    return [*bars, *_agreement_bars(agreement)]


def _start_up_bars(runs: Mapping[str, list[Passage]]) -> Iterator[Bar]:
    totals = {who: [each.total for each in passages] for who, passages in runs.items()}
    outside = {who: [each.outside for each in passages] for who, passages in runs.items()}
    for who, seconds in totals.items():
        print(
            f"total {who}: {median(seconds):.2f} s, outside of blocks {median(outside[who]) / 6:.3f} s a point"
        )
    yield bar("total, to Orbax as shipped", totals["ours"], totals["shipped"], at_most=0.4)
    yield bar("total, to Orbax without TensorFlow", totals["ours"], totals["stubbed"], at_most=1.0)
    yield bar("time outside of measured blocks", outside["ours"], outside["stubbed"], at_most=0.5)


def _agreement_bars(runs: Mapping[str, list[Passage]]) -> Iterator[Bar]:
    for operation in OPERATIONS:
        ours, theirs = (
            [median(each.operations[operation]) for each in runs[who]] for who in ("ours", "stubbed")
        )
        print(f"{operation}: ours {median(ours) * 1e3:.1f} ms, Orbax {median(theirs) * 1e3:.1f} ms")
        yield bar(f"measured {operation}", ours, theirs, at_least=0.9, at_most=1.1, whole_interval=True)


def _rounds(
    what: str, folder: Path, runners: Mapping[str, Callable[[Path], Passage]]
) -> dict[str, list[Passage]]:
    """Runs each in every round, in another order each time: what the machine does besides hits all alike."""
    found: dict[str, list[Passage]] = {who: [] for who in runners}
    names = list(runners)
    for number in range(ROUNDS):
        shift = number % len(names)
        for who in names[shift:] + names[:shift]:
            out = folder / f"{who}-{number}"
            found[who].append(runners[who](out))
            shutil.rmtree(out, ignore_errors=True)
        print(f"{what}: round {number + 1} of {ROUNDS}", file=sys.stderr)
    return found
