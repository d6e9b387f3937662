"""The worker: `python -m runtime SUITE --output DIR` runs a suite, alone or as one of several workers."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import stacks
from runtime.contract.errors import BadInput, ExitCode, SlicebenchError
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.progress import Init
from runtime.progress_out import ProgressWriter
from runtime.settings import Settings, parse

if TYPE_CHECKING:
    from runtime.contract.suite import Point, Suite


def main(arguments: Sequence[str]) -> ExitCode:
    """Runs the suite and returns how it went; what went wrong is told on stderr."""
    try:
        return _run(parse(arguments, os.environ))
    except SlicebenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _run(settings: Settings) -> ExitCode:
    from runtime import distributed
    from runtime.contract.expand import expand
    from runtime.contract.suite_reader import read_suite
    from runtime.contract.yamlfile import read_text

    suite = read_suite(read_text(settings.suite), str(settings.suite))
    if suite.simdevice is not None:
        raise BadInput(
            f"{settings.suite} asks for simulated TPUs (simdevice), and workers run on real devices only",
            fix="remove the simdevice block, or run the suite with Orbax's own runner",
        )
    points = expand(suite)
    progress = ProgressWriter.from_environment()
    with _scratch(settings) as scratch, _dumps(settings, scratch):
        _join(settings, progress)
        code = _measure(settings, suite, points, scratch, progress)
    if code is not ExitCode.WORKLOAD_FAILED:
        distributed.leave(settings.membership)
    return code


def _join(settings: Settings, progress: ProgressWriter) -> None:
    """Starts JAX's backend together with the other workers."""
    from runtime import backend

    backend.configure(os.environ, platform=settings.platform, devices=settings.devices_per_worker)
    progress.tell(Init("begin"))
    import jax

    from runtime import distributed

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
    """Runs the points; what was measured lies in the run's folder afterwards, however it went."""
    from runtime import results_io
    from runtime.engine import Engine
    from runtime.fitting import fit_here
    from runtime.limits.measuring import limits_here

    fitted = fit_here(points)
    limits = limits_here(settings, scratch, settings.limits and suite.limits)
    _write_manifest(settings, suite, [each.point for each in fitted], scratch, limits)
    with results_io.Journal(scratch / JOURNAL_FILE) as journal:
        code = Engine(settings, suite, journal, progress, scratch).run(fitted)
    results_io.seal(scratch, settings.output, settings.attempt, settings.membership.worker)
    return code


def _write_manifest(
    settings: Settings, suite: Suite, points: Sequence[Point], scratch: Path, limits: Mapping[str, Any]
) -> None:
    from runtime import effective, manifest

    worker = settings.membership.worker
    told = {
        "run_id": settings.run_id,
        "attempt": settings.attempt,
        "worker": worker,
        "workers": settings.membership.workers,
        "suite": suite.name,
        "repeats": suite.num_repeats,
        "warmup": suite.warmup,
        "command": sys.argv,
        "limits": limits,
        # Those of the whole attempt: when a worker had to start again, its last manifest is the one that stays.
        "points": [effective.described(point) for point in points if settings.takes(point.index)],
    }
    found = manifest.collect_manifest(settings.output, told)
    manifest.write_manifest(found, settings.output, settings.attempt, worker, scratch)


@contextlib.contextmanager
def _dumps(settings: Settings, scratch: Path) -> Iterator[None]:
    """Lets XLA dump what it compiles, if asked to; a bucket gets the dumps at the end."""
    if not settings.debug_dumps:
        yield
        return
    from runtime import output, profiling

    name = profiling.xla_dump_folder(settings.membership.worker)
    folder = (scratch if output.is_remote(settings.output) else Path(settings.output)) / name
    profiling.prepare_xla_dump(folder)
    try:
        yield
    finally:
        output.publish(folder, settings.output, name)


@contextlib.contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    """Yields this worker's own folder: one that somebody chose and looks into afterwards, or a temporary."""
    if settings.scratch is not None:
        settings.scratch.mkdir(parents=True, exist_ok=True)
        yield settings.scratch
        return
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        yield Path(folder)


def leave(code: ExitCode) -> None:
    """Ends the process at once: all is written, and taking JAX apart in order takes up to a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    stacks.arm()
    leave(main(sys.argv[1:]))
