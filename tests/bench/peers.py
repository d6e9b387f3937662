"""Starts our worker and Orbax's own runner on one suite, and reads from each how long what took."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq

from runtime.contract.names import samples_file
from runtime.contract.progress import PROGRESS_FD_VARIABLE

ROOT = Path(__file__).parents[2]
STUBS = Path(__file__).parent / "stubs"
RUNNER = "orbax.checkpoint._src.testing.benchmarks.run_benchmarks"
_SHARED = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy", "pyarrow", "psutil", "pyyaml")
_OF_ORBAX = ("clu", "tensorflow-cpu", "tensorboard")


@dataclass(frozen=True)
class Passage:
    """One run of a suite: seconds from start to exit, seconds from the first point's begin to the last one's
    end, and the seconds of each measured operation."""

    total: float
    points: float
    operations: Mapping[str, list[float]]

    @property
    def outside(self) -> float:
        """Seconds of the points that no measured block accounts for."""
        return self.points - sum(map(sum, self.operations.values()))


def environment_python() -> Path:
    """Returns the Python of a venv with our versions and what Orbax's runner needs besides; makes it once.

    Both sides run in it, so that they differ in nothing else.
    """
    pins = [f"{name}=={version(name)}" for name in _SHARED]
    venv = (
        bench_home() / f"orbax-{version('orbax-checkpoint')}-jax-{version('jax')}-py{sys.version_info.minor}"
    )
    python = venv / "bin" / "python"
    if (venv / "complete").exists():
        return python
    print(f"making {venv} (TensorFlow: several hundred MB)", file=sys.stderr)
    shutil.rmtree(venv, ignore_errors=True)
    install(venv, [*pins, *_OF_ORBAX])
    (venv / "complete").touch()
    return python


def bench_home() -> Path:
    """Returns the folder that keeps the peers' venvs from call to call."""
    return Path(os.environ.get("SLICEBENCH_HOME") or Path.home() / ".cache" / "slicebench") / "bench"


def install(venv: Path, packages: Sequence[str]) -> None:
    """Makes a venv of this Python and installs packages into it, from the index that pip and uv are set up for."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        raise RuntimeError("uv is missing; install slicebench's requirements")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
    command = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--python",
        str(venv / "bin" / "python"),
    ]
    subprocess.run([*command, *packages], check=True)


def our_command(python: Path, suite: Path, devices: int, folder: Path, *, keep: bool) -> Sequence[str]:
    """Returns the command line of our worker; with `keep`, checkpoints stay, as Orbax's runner does by default."""
    command = [str(python), "-m", "runtime", str(suite), "--output", str(folder), "--platform", "cpu"]
    return [*command, "--devices-per-worker", str(devices), *(["--keep-checkpoints"] if keep else [])]


def our_environment() -> dict[str, str]:
    """Returns the environment of our worker."""
    return _environment({"PYTHONPATH": str(ROOT)})


def our_operations(folder: Path) -> dict[str, list[float]]:
    """Returns the seconds of each operation that our worker measured, in the order of its points and repeats."""
    operations: dict[str, list[float]] = defaultdict(list)
    for sample in pq.read_table(folder / samples_file(1, 0)).to_pylist():
        if sample["metric"] == "time_s":
            operations[sample["operation"]].append(sample["value"])
    return operations


def orbax_command(python: Path, suite: Path, folder: Path, *, keep: bool) -> Sequence[str]:
    """Returns the command line of Orbax's own runner; without `keep` it removes checkpoints, as ours does."""
    command = [str(python), "-m", RUNNER, f"--config_file={suite}", f"--output_directory={folder}"]
    return command if keep else [*command, "--remove_repeated_dir=true"]


def orbax_environment(devices: int, *, stubbed: bool) -> dict[str, str]:
    """Returns the environment of Orbax's runner; `stubbed` without TensorFlow."""
    more = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    return _environment(more | ({"PYTHONPATH": str(STUBS)} if stubbed else {}))


def orbax_operations(log: str) -> dict[str, list[float]]:
    """Returns the same of Orbax's runner, from its log, which gives 0.1 ms at best."""
    operations: dict[str, list[float]] = defaultdict(list)
    for report in re.findall(r"Metrics Report ---\n(.*?)\n-{10,}", log, re.DOTALL):
        for name, seconds in re.findall(r"^(\w+)::0_basics/time_s: ([0-9.]+) s$", report, re.MULTILINE):
            if not name.startswith("sync_"):
                operations[name].append(float(seconds))
    return operations


def run_ours(python: Path, suite: Path, devices: int, folder: Path) -> Passage:
    """Runs `python -m runtime`, which keeps its checkpoints: both sides do the same work."""
    reader, writer = os.pipe()
    began = time.perf_counter()
    process = subprocess.Popen(
        our_command(python, suite, devices, folder, keep=True),
        env=our_environment() | {PROGRESS_FD_VARIABLE: str(writer)},
        pass_fds=[writer],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    marks = []
    with os.fdopen(reader) as lines:
        for line in lines:
            if json.loads(line)["kind"] in ("point", "done"):
                marks.append(time.perf_counter())
    _, told = process.communicate()
    total = time.perf_counter() - began
    if process.returncode != 0:
        raise RuntimeError(f"our runtime failed: {told[-2000:]}")
    return Passage(total, marks[-1] - marks[0], our_operations(folder))


def run_orbax(python: Path, suite: Path, devices: int, folder: Path, *, stubbed: bool) -> Passage:
    """Runs Orbax's own runner as it comes; `stubbed` without TensorFlow."""
    log = folder.with_suffix(".log")
    with log.open("w") as file:
        began = time.perf_counter()
        code = subprocess.call(
            orbax_command(python, suite, folder, keep=True),
            env=orbax_environment(devices, stubbed=stubbed),
            stdout=file,
            stderr=file,
        )
        total = time.perf_counter() - began
    text = log.read_text()
    if code != 0:
        raise RuntimeError(f"Orbax's runner failed: {text[-2000:]}")
    begin = _moment(text, r"Running test: ")
    end = _moment(text, r"Benchmark test suite run completed")
    return Passage(total, end - begin, orbax_operations(text))


def _moment(text: str, what: str) -> float:
    """Returns when a line was first logged, in seconds of the day; absl logs `I1127 23:59:20.433019 …`."""
    at = re.search(what, text)
    stamps = list(
        re.finditer(r"^[IWE]\d{4} (\d\d:\d\d:\d\d\.\d{6}) ", text[: at.end()] if at else "", re.MULTILINE)
    )
    if not stamps:
        raise RuntimeError(f"Orbax's log has no line {what!r}")
    moment = datetime.time.fromisoformat(stamps[-1][1])
    return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PYTHON"))
    }
    return {**clean, **more}
