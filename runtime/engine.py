"""Runs the points of a suite on this worker, one after another, and writes down what became of each."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from etils import epath

from runtime import distributed, effective, folders, preparing, profiling, rounds
from runtime.benchmarks import loading
from runtime.benchmarks.benchmark import Benchmark, Context, NotRun
from runtime.collectors.defaults import default_collectors
from runtime.contract.disruption import Restart
from runtime.contract.errors import BadInput, ExitCode, InfrastructureError, SlicebenchError, worst
from runtime.contract.names import CHECKPOINTS_FOLDER, REFERENCES_FOLDER
from runtime.contract.progress import PAUSED, Done, Operation, Step, StepState
from runtime.contract.redaction import Redaction
from runtime.contract.results import PointStatus
from runtime.contract.suite import Point, Suite
from runtime.fitting import Fitted
from runtime.leftovers import Leftovers
from runtime.measure import Phase, Recorder
from runtime.progress_out import ProgressWriter
from runtime.repeats import Judge, Overheard, measured, occurrences_before
from runtime.results_io import Journal
from runtime.rounds import Opened
from runtime.settings import Settings
from runtime.steps import Steps


class Engine:
    """One worker's passage through a suite."""

    def __init__(
        self, settings: Settings, suite: Suite, journal: Journal, progress: ProgressWriter, scratch: Path
    ) -> None:
        """`scratch` is this worker's own folder. JAX must have been initialised."""
        self._settings, self._suite, self._journal, self._progress = settings, suite, journal, progress
        self._scratch = scratch
        self._redact = Redaction.of_environment(os.environ)
        self._points = 0
        self._member = settings.membership
        self._checkpoints = epath.Path(settings.output) / CHECKPOINTS_FOLDER
        self._references = epath.Path(settings.output) / REFERENCES_FOLDER
        self._leftovers = Leftovers(settings, self._references)
        self._ready_at = time.monotonic()
        self._local = epath.Path(settings.local_directory) if settings.local_directory else None
        self._now: tuple[Point, int] | None = None
        self._overheard = Overheard(journal)
        self._recorder = Recorder(
            self._overheard,
            run_id=settings.run_id,
            attempt=settings.attempt,
            worker=self._member.worker,
            collectors=default_collectors(),
            announce=self._announce,
            redact=self._redact,
        )

    def run(self, fitted: Sequence[Fitted]) -> ExitCode:
        """Runs the points from `first_point` on, of those that are asked for.

        Returns how it went. With several workers the first failure ends it: the others may be waiting for
        this one inside a collective, and only their supervisors can get them out.
        """
        self._points = len(fitted)
        if unknown := (self._settings.points or frozenset()) - {each.point.index for each in fitted}:
            raise BadInput(
                f"the suite has no point {min(unknown)} here", fix=f"its points are 0 to {self._points - 1}"
            )
        codes = [ExitCode.DONE]
        mine = [each for each in fitted if self._settings.runs(each.point.index)]
        for group in rounds.groups(mine, self._suite.interleave):
            for status, leave in self._take_turns(group):
                codes.append(_CODES[status])
                if leave:
                    return ExitCode.WORKLOAD_FAILED
        self._leftovers.sweep()
        failed = sum(code is ExitCode.WORKLOAD_FAILED for code in codes)
        self._progress.tell(Done(points=self._points, failed=failed))
        return worst(codes)

    def _take_turns(self, group: Sequence[Fitted]) -> Iterator[tuple[PointStatus, bool]]:
        """Runs points to their ends, with several a repeat of each in turn; yields how each went, as `_turn` does."""
        opened = [one for each in group if (one := self._open(each, alone=len(group) == 1)) is not None]
        while opened:
            for one in tuple(opened):
                status, leave = self._turn(one, None if len(group) == 1 else 1)
                if status is not None:
                    opened.remove(one)
                    yield status, leave

    def _open(self, fitted: Fitted, *, alone: bool) -> Opened | None:
        """Returns a point that is to run, or None: one that takes turns may have its result from a session before."""
        point = fitted.point
        restart = rounds.restart_of(self._settings, point)
        repeats = rounds.repeats_left(self._suite.repeats, restart)
        if not alone:
            before = rounds.done_before(*self._where(point), self._member.worker)
            if before is None:
                return None
            repeats = repeats[before:]
        one = Opened(fitted, repeats, self._suite.repeats - len(repeats), restart)
        goes_on = len(repeats) < self._suite.repeats and (restart is None or restart.point is None)
        known = measured(*self._where(point)) if goes_on else []
        known = [sample for sample in known if sample.repeat not in repeats]
        one.judge = Judge(point, self._suite.adaptive, known, one.clock)
        return one

    def _turn(self, one: Opened, most: int | None) -> tuple[PointStatus | None, bool]:
        """Does what is left of a point, or the next `most` repeats of it.

        Returns how the point went (None: it goes on later), and whether this worker must leave the others.
        """
        point = one.point
        self._progress.tell(effective.begin(point, self._points))
        self._overheard.judge = one.judge
        status: PointStatus = "passed"
        cause, stopped, leave = "", "", False
        one.goes_on()
        try:
            one.benchmark = one.benchmark or self._load(one.fitted)
            for repeat in one.repeats[:most]:
                self._run_repeat(one.benchmark, one.fitted, repeat, one.restart)
                one.did(repeat)
                if stopped := one.judge.why_enough(one.done - self._suite.warmup):
                    one.repeats.clear()
                    break
        except NotRun as error:
            status, cause = "not_run", str(error)
        except _Agreed as error:
            status, cause = "failed", str(error)
        except Exception as error:  # noqa: BLE001 (whatever a benchmark raises is its result, not ours to judge)
            status, cause = "failed", self._in_one_line(error)
            self._say(traceback.format_exc().rstrip())
            leave = self._member.workers > 1
        one.pauses()
        cause = self._redact(cause)
        if cause:
            self._say(f"{point.benchmark}: {status}: {cause}")
        paused = status == "passed" and bool(one.repeats)
        self._write_down(one, status, cause, stopped, paused)
        self._progress.tell(effective.end(point, self._points, PAUSED if paused else status, cause))
        self._ready_at = time.monotonic()  # for the next: what this one took is no part of its recovery
        return None if paused else status, leave

    def _write_down(self, one: Opened, status: PointStatus, cause: str, stopped: str, paused: bool) -> None:
        if paused:  # it stands if nothing comes after it
            status, cause = "not_run", f"it was stopped after {one.done} of {self._suite.repeats} repeats"
        self._journal.append(
            effective.result(
                one.fitted.point,
                run_id=self._settings.run_id,
                attempt=self._settings.attempt,
                worker=self._member.worker,
                status=status,
                cause=cause,
                repeats_done=one.done,
                stopped=stopped,
                paused=paused,
            )
        )

    def _where(self, point: Point) -> tuple[Path, int, int]:
        """Returns where a point's samples are, of which attempt, and its number."""
        return self._journal.path, self._settings.attempt, point.index

    def _load(self, fitted: Fitted) -> Benchmark:
        """Returns the benchmark once every worker has it. Raises NotRun on all of them when one has not."""
        benchmark, cause = None, fitted.why_not
        try:
            benchmark = loading.load(fitted.point, str(self._references))
            cause = cause or benchmark.unavailable()
        except BadInput as error:
            cause = str(error)
        cause = distributed.agree(cause)
        if cause is not None:
            raise NotRun(cause)
        assert benchmark is not None
        return benchmark

    def _run_repeat(self, benchmark: Benchmark, fitted: Fitted, repeat: int, restart: Restart | None) -> None:
        name = f"{fitted.point.key}/repeat_{repeat}"
        path = self._checkpoints / name
        local = self._local / name if self._local is not None else None
        context = Context(fitted.point, repeat, path, self._recorder, fitted.mesh, local_path=local)
        self._now = (fitted.point, repeat)
        self._prepare(benchmark, context, restart)
        first = 0 if restart is None else occurrences_before(*self._where(fitted.point), repeat)
        warmup = repeat < self._suite.warmup
        trace: AbstractContextManager[None] = profiling.trace_repeat(
            fitted.point, repeat, self._member.worker, self._settings.output, self._scratch
        )
        with self._leftovers.gone_after(context):
            try:
                with self._recorder.repeat(fitted.point, repeat, warmup, first_occurrence=first):
                    with trace, context.traced():
                        benchmark.run(context)
                    if context.steps:
                        context.steps.finish()
                    if self._member.worker == 0:
                        files, size = folders.contents(benchmark.place(context))
                        self._recorder.value("checkpoint", "files", files, "count")
                        self._recorder.value("checkpoint", "stored_bytes", size, "bytes")
            finally:
                self._now = None
                context.free()

    def _prepare(self, benchmark: Benchmark, context: Context, restart: Restart | None) -> None:
        """Makes folders and data, and waits until all workers have. Raises _Agreed on all if one failed.

        After a disruption what lies in the folders stays: the checkpoints are to be gone on from.
        """
        cause = None
        try:
            if self._member.worker == 0 and restart is None:
                folders.make_empty(context.path)
            if context.local_path is not None:
                context.local_path.mkdir(parents=True, exist_ok=True)
            if context.point.disruption is not None or benchmark.resumes:
                context.steps = self._steps(context, restart)
            else:
                preparing.make_data(context)
        except (ValueError, OSError, NotImplementedError, TypeError, KeyError) as error:
            cause = f"data could not be prepared: {self._in_one_line(error)}"
            self._say(traceback.format_exc().rstrip())
        cause = distributed.agree(cause)
        if cause is not None:
            raise _Agreed(cause)

    def _steps(self, context: Context, restart: Restart | None) -> Steps:
        def tell(state: StepState, step: int) -> None:
            self._progress.tell(Step(state, context.point.index, self._points, context.repeat, step))

        return Steps(
            context.point, context.repeat, context.mesh, self._recorder, tell, restart, self._ready_at
        )

    def _in_one_line(self, error: BaseException) -> str:
        # Redacted before it is cut: of what is cut in the middle, the start would stay.
        text = " ".join(self._redact(str(error)).split())
        return text if isinstance(error, SlicebenchError) else f"{type(error).__name__}: {text}"[:1000]

    def _say(self, text: str) -> None:
        print(self._redact(text), file=sys.stderr, flush=True)

    def _announce(self, operation: str, phase: Phase) -> None:
        assert self._now is not None
        point, repeat = self._now
        self._progress.tell(
            Operation(
                "begin" if phase == "start" else "end",
                point.index,
                self._points,
                point.benchmark,
                repeat,
                operation,
            )
        )


class _Agreed(SlicebenchError):
    """A failure before the measured part that every worker knows of: none has to leave."""


_CODES: dict[PointStatus, ExitCode] = {
    "passed": ExitCode.DONE,
    "failed": ExitCode.WORKLOAD_FAILED,
    "not_run": InfrastructureError.exit_code,
}
