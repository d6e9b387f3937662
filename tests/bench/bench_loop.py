"""The inner loop on four hosts over SSH: a file is edited, workers are updated, a run starts, and measuring begins."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tests.bench.bare_jax import bare_jax
from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.bench.peers import ROOT
from tests.bench.ssh_update import Origin, by_us, furnish
from tests.cloud.sshd import Sshd, missing, serve_ssh, target_yaml
from tests.slowness import slowness

WORKERS = 4

ROUNDS = (3, 5)
"""At least and at most."""

BUDGET_S = 240.0

LIMIT_S = 10.0

_SUITE = """\
suite_name: loop
num_repeats: 1
mesh_config: {mesh_axes: [x], ici_parallelism: {x: 4}}
checkpoint_config:
  spec: {a: {dtype: float32, shape: [64, 64], sharding: [x, null]}}
benchmarks:
  - generator: runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint
    options: {use_ocdbt: true}
"""


def measure() -> list[Bar]:
    """Returns the bar: seconds from the edit to the first thing measured, less those of bare JAX."""
    if reason := missing():
        raise RuntimeError(reason)
    user = getpass.getuser()  # who can see this Python and its packages
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        serve_ssh(WORKERS, user=user, homes=True) as hosts,
    ):
        folder = Path(scratch)
        folder.chmod(0o755)
        origin = Origin(folder / "origin", user, Path(_orbax()))
        for host in hosts:
            furnish(host, Path(sys.executable), Path(sysconfig.get_path("purelib")))
        (folder / "suite.yaml").write_text(_SUITE)
        _play(hosts, origin, folder, 1)
        ours, allowed = [], []
        for number in rounds("inner loop", *ROUNDS, BUDGET_S):
            slow = slowness()
            bare = bare_jax(WORKERS)
            took = _play(hosts, origin, folder, number + 2)
            print(f"bare JAX {bare:.1f} s, all {took:.1f} s", file=sys.stderr, flush=True)
            ours.append(took - bare)
            allowed.append(LIMIT_S * slow)
    what = f"from an edit to measuring on {WORKERS} workers, less bare JAX / {LIMIT_S:g} s"
    return [bar(f"{what} × {sorted(allowed)[len(allowed) // 2] / LIMIT_S:.1f}", ours, allowed, at_most=1.0)]


def _play(hosts: Sequence[Sshd], origin: Origin, folder: Path, number: int) -> float:
    """Edits, updates and runs once; returns the seconds from the edit until the first sample begins."""
    begin = time.time()
    origin.commit(number)
    by_us(hosts, origin)
    run_id = _run(hosts, folder, number)
    files = (folder / "runs" / run_id / "results").glob("samples-*.parquet")
    first = min(
        sample["started_at"]
        for file in files
        for sample in pq.read_table(file, columns=["started_at"]).to_pylist()
    )
    return float(first) - begin


def _run(hosts: Sequence[Sshd], folder: Path, number: int) -> str:
    target = folder / "hosts.yaml"
    # The hosts are one machine: all use the first one's Python, which imports from its clone.
    target.write_text(
        target_yaml(hosts, str(hosts[0].home / "venv/bin/python")) + f"folder: {hosts[0].home / 'there'}\n"
    )
    words = ["run", str(folder / "suite.yaml"), "--target", str(target), "--json", "--direct"]
    words += ["--output", str(folder / "runs"), "--run-id", f"loop-{number}"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "JAX_"))}
    home = {"SLICEBENCH_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", *words],
        cwd=ROOT, env=clean | home, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return str(json.loads(done.stdout)["run_id"])


def _orbax() -> str:
    import orbax.checkpoint

    return str(Path(orbax.checkpoint.__file__).parent)
