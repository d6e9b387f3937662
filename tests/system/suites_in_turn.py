"""A worker that runs one suite after the other in one process, so that Python and JAX start once for all of them.

    python -m tests.system.suites_in_turn FOLDER WORKER WORKERS COORDINATOR DEVICES NAME…

FOLDER holds NAME.yaml. What became of it lies in FOLDER/NAME/results then, as after `python -m runtime`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

from runtime import __main__ as worker
from runtime.contract.errors import ExitCode
from runtime.contract.expand import expand
from runtime.contract.suite_reader import read_suite
from runtime.progress_out import ProgressWriter
from runtime.settings import Settings, parse


def main(folder: Path, *where: str) -> ExitCode:
    """Stops at the first suite that fails: the other workers may be waiting inside of it."""
    number, workers, coordinator, devices, *names = where
    asked = ["--worker", number, "--workers", workers, "--coordinator", coordinator, "--platform", "cpu"]
    silent = ProgressWriter(None)

    def settings(suite: Path) -> Settings:
        output = ["--output", str(folder / suite.stem), "--no-limits", "--devices-per-worker", devices]
        return parse([str(suite), *output, *asked], {})

    suites = [folder / f"{name}.yaml" for name in names]
    worker._join(settings(suites[0]), silent)
    for path in suites:
        suite = read_suite(path.read_text(), str(path))
        scratch = folder / f"scratch-{path.stem}-{number}"
        scratch.mkdir()
        mine = dataclasses.replace(settings(path), scratch=scratch)
        print(f"suite {path.stem}", flush=True)
        if worker._measure(mine, suite, expand(suite), scratch, silent) is ExitCode.WORKLOAD_FAILED:
            return ExitCode.WORKLOAD_FAILED
    return ExitCode.DONE


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), *sys.argv[2:])
    sys.stdout.flush()
    os._exit(code)
