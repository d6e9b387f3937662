"""The worker: `python -m runtime SUITE --output DIR` runs a suite, alone or as one of several workers."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import stacks
from runtime.contract.errors import ExitCode, SlicebenchError
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.progress import Init
from runtime.progress_out import ProgressWriter
from runtime.settings import Settings, parse

if TYPE_CHECKING:
    from runtime.contract.suite import Point, Suite


def main(arguments: Sequence[str]) -> ExitCode:
    """Runs the suite and returns how it went; what went wrong is told on stderr."""
    try:
        settings = parse(arguments, os.environ)
        return _run(settings)
    except SlicebenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _run(settings: Settings) -> ExitCode:
    from runtime import backend
    from runtime.contract.expand import expand
    from runtime.contract.suite_reader import read_suite
    from runtime.contract.yamlfile import read_text

    suite = read_suite(read_text(settings.suite), str(settings.suite))
    points = expand(suite)
    with _scratch(settings) as folder:
        scratch = Path(folder)
        worker = settings.membership.worker
        dumps = backend.dumps_folder(settings.output, scratch, worker) if settings.debug_dumps else None
        backend.configure(
            os.environ, platform=settings.platform, devices=settings.devices_per_worker, dumps=dumps
        )
        progress = ProgressWriter.from_environment()
        _join(settings, progress)
        return _measure(settings, suite, points, scratch, progress)


def _join(settings: Settings, progress: ProgressWriter) -> None:
    """Starts JAX's backend together with the other workers."""
    progress.tell(Init("begin"))
    # What is needed only at the end, or only later, is imported while the backend starts.
    threading.Thread(target=_preload, daemon=True).start()
    import jax

    from runtime import backend, distributed

    jax.config.update("jax_enable_x64", True)  # as Orbax's own runner does: a suite may name 64-bit dtypes
    distributed.join(settings.membership)
    distributed.expect_everybody(settings.membership)
    backend.expect_devices(settings.devices_per_worker)
    progress.tell(
        Init(
            "end",
            process_count=jax.process_count(),
            device_count=jax.device_count(),
            local_device_count=jax.local_device_count(),
            platform=jax.default_backend(),
        )
    )


def _measure(
    settings: Settings, suite: Suite, points: Sequence[Point], scratch: Path, progress: ProgressWriter
) -> ExitCode:
    from runtime import distributed, results_io
    from runtime.engine import Engine
    from runtime.fitting import fit_here

    worker = settings.membership.worker
    with results_io.Journal(scratch / JOURNAL_FILE) as journal:
        code = Engine(settings, suite, journal, progress, scratch).run(fit_here(points))
    results_io.seal(scratch, settings.output, settings.attempt, worker)
    if code is not ExitCode.WORKLOAD_FAILED or settings.membership.workers == 1:
        distributed.leave(settings.membership)
    return code


def _preload() -> None:
    from runtime import results_io

    results_io.preload()


def _scratch(settings: Settings) -> tempfile.TemporaryDirectory[str] | _Kept:
    return _Kept(settings.scratch) if settings.scratch else tempfile.TemporaryDirectory(prefix="slicebench-")


class _Kept:
    """A scratch folder that somebody else chose, and looks into afterwards."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        self._path.mkdir(parents=True, exist_ok=True)
        return str(self._path)

    def __exit__(self, *_: object) -> None:
        return None


def leave(code: ExitCode) -> None:
    """Ends the process at once: everything is written, and taking JAX apart in order takes up to a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    stacks.arm()
    leave(main(sys.argv[1:]))
