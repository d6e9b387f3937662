"""Supervises one worker of one attempt: starts it, listens, ends all of it, says how it went.

`python -m runtime.supervise JOB.json` needs nothing but Python's standard library and Linux. It exits
with 0 when every point passed, 1 when one failed, 3 when a machine or the run itself failed it, 130 when
it was told to stop.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from runtime.contract.errors import ExitCode, InfrastructureError, SlicebenchError
from runtime.contract.job import Job
from runtime.contract.names import STREAM_FILE
from runtime.contract.progress import (
    Done,
    Exited,
    FromWorker,
    Log,
    PointPhase,
    Started,
    WorkerExited,
)
from runtime.contract.results import PointStatus
from runtime.supervision import journal, processes
from runtime.supervision.command import command_line
from runtime.supervision.messages import (
    Blame,
    Command,
    End,
    Ended,
    Finish,
    Left,
    Report,
    Said,
    Start,
    Stopping,
)
from runtime.supervision.posts import Chair, Member, Post
from runtime.supervision.renewal import Renewals, owner_gone
from runtime.supervision.stream import Stream, records
from runtime.supervision.worker import Worker, start_guard

_TICK_S = 0.1
_WATCH_EVERY_S = 0.5
_SEAL_S = 120.0
_SEAL_IN_A_HURRY_S = 8.0


class Supervisor:
    """One worker's supervisor. Everything happens in the thread that calls `run`; other threads only post to it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stream = Stream(
            Path(job.scratch, STREAM_FILE),
            on_trouble=lambda cause: self._inbox.put(lambda: self._stop(ExitCode.INFRASTRUCTURE, cause)),
        )
        self._label = uuid.uuid4().hex
        self._worker: Worker | None = None
        self._session = 0
        self._said: dict[int, PointPhase] = {}
        self._point: int | None = None
        self._points = 0
        self._unsealed = False
        self._done = False
        self._stopping = self._hurry = False
        self._finished: Exited | None = None
        self._post: Post = (
            Chair(job, self._obey, self._say, self._inbox.put, time.monotonic)
            if job.worker == 0
            else Member(job, self._obey, self._stop_where_it_is, self._inbox.put)
        )

    def run(self) -> int:
        """Supervises until it is over. Returns the exit code."""
        if self._stream.last and isinstance(self._stream.last.body, Exited):
            return self._stream.last.body.code  # whoever started it again may read how it ended
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        lost = self._recall()
        self._guard = start_guard(self._label, self._job.code, os.environ)
        processes.adopt_orphans()
        try:
            if lost:
                self._obey(lost)
            else:
                self._supervise()
        finally:
            if self._worker:
                self._worker.end()
            self._finished = self._finished or Exited(ExitCode.INFRASTRUCTURE, "the supervisor itself failed")
            self._stream.close(self._finished)
            self._post.close()
            self._dismiss_guard()
        if self._finished.cause:
            print(self._finished.cause, file=sys.stderr, flush=True)
        return self._finished.code

    def _recall(self) -> Finish | None:
        """Returns how to end an attempt whose supervisor was killed: its samples are kept, none is taken twice."""
        started = False
        for record in records(self._stream.path):
            match record.body:
                case Started():
                    started = True
                case PointPhase() as body:
                    self._points = max(self._points, body.points)
                    self._point = body.point if body.phase == "begin" else None
                    self._said.setdefault(body.point, body)
                case Done():
                    self._done = True
        if not started:
            return None
        self._unsealed = True
        return self._end_of_this_worker(ExitCode.INFRASTRUCTURE, "the supervisor of this attempt was killed")

    def _dismiss_guard(self) -> None:
        assert self._guard.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            self._guard.stdin.write(b"all is well\n")
            self._guard.stdin.close()
        self._guard.wait()

    def _supervise(self) -> None:
        job, now = self._job, time.monotonic()
        renewals = Renewals(job.renewal_file, job.lease_s, now) if job.renewal_file else None
        watch_at = now
        try:
            self._post.open(now)
        except InfrastructureError as error:
            self._stop(ExitCode.INFRASTRUCTURE, str(error))
        while not self._finished:
            try:
                self._inbox.get(timeout=_TICK_S)()
            except queue.Empty:
                processes.reap_orphans()
            now = time.monotonic()
            if now >= watch_at and not self._finished:
                watch_at = now + _WATCH_EVERY_S
                cause = (renewals.overdue(now) if renewals else "") or (
                    owner_gone(job.owner) if job.owner else ""
                )
                if cause:
                    self._stop(ExitCode.INFRASTRUCTURE, cause)
            if not self._finished:
                self._post.tick(now)

    def _obey(self, command: Command) -> None:
        if self._finished:
            return
        match command:
            case Start():
                self._start(command)
            case End():
                self._end(command)
            case Finish():
                self._finish(command)

    def _start(self, start: Start) -> None:
        if start.blame:
            self._write_down({start.blame.point: ("failed", start.blame.cause)})
        self._session, self._point, self._done = start.session, None, False
        session = start.session
        command = command_line(self._job, start.first_point, start.coordinator)
        try:
            self._worker = Worker(
                self._job,
                session,
                command,
                self._label,
                self._guard.pid,
                self._stream.write,
                on_progress=lambda body: self._inbox.put(lambda: self._told(session, body)),
                on_exit=lambda code: self._inbox.put(lambda: self._left(session, code)),
            )
        except OSError as error:
            self._stop(ExitCode.INFRASTRUCTURE, f"cannot start the worker: {error}")
            return
        self._unsealed = True
        self._stream.write(Started(session, self._worker.pid, start.first_point))

    def _told(self, session: int, body: FromWorker) -> None:
        if session != self._session or self._finished:
            return
        if isinstance(body, PointPhase):
            self._points = max(self._points, body.points)
            self._point = body.point if body.phase == "begin" else None
            if body.phase == "begin":
                self._said[body.point] = body
        elif isinstance(body, Done):
            self._done = True
        self._report(Said(session, body))

    def _left(self, session: int, code: int) -> None:
        worker = self._worker
        if worker is None or session != self._session:
            return
        if self._done and code in (0, 1):
            self._unsealed = False
        report = Left(session, code, worker.last_words(), worker.last_lines(), worker.out_of_memory())
        self._end_worker(code)
        self._report(report)

    def _end(self, end: End) -> None:
        if end.session != self._session:
            return
        if end.deadline:
            self._stream.write(end.deadline)
        state, waits = "", False
        if self._worker and end.dump:
            state, waits = self._worker.dump()
        left = self._end_worker(None)
        self._report(Ended(end.session, state, waits, left))

    def _finish(self, finish: Finish) -> None:
        code, cause = finish.code, finish.cause
        if self._worker and code == ExitCode.INTERRUPTED:
            self._let_go()
        left = self._end_worker(None)
        causes: dict[int, tuple[PointStatus, str]] = {}
        if finish.not_run_from is not None:
            said = journal.all_points(self._job, self._label)
            self._said = {**said, **self._said}
            points = max(self._points, finish.points)
            never = {*said, *range(points)} - set(range(finish.not_run_from))
            causes = dict.fromkeys(filter(self._job.runs, never), ("not_run", cause))
        if finish.blame:
            causes[finish.blame.point] = ("failed", finish.blame.cause)
        trouble = [told for told in (left, self._write_down(causes), self._seal(code)) if told]
        if trouble:
            code = code if code == ExitCode.INTERRUPTED else ExitCode.INFRASTRUCTURE
            cause = "; ".join([cause, *trouble] if cause else trouble)
        self._finished = Exited(int(code), cause)

    def _stop(self, code: int, cause: str) -> None:
        """Ends because of something here; tells the others, and does not wait for them to answer."""
        if self._finished:
            return
        self._report(Stopping(int(code), cause))
        self._obey(self._end_of_this_worker(code, cause))

    def _stop_where_it_is(self, code: int, cause: str) -> None:
        self._stop(
            code,
            cause
            if self._point is None
            else f"{cause}; worker {self._job.worker} was in point {self._point}",
        )

    def _end_of_this_worker(self, code: int, cause: str) -> Finish:
        """Returns how to end when nobody else can say: by what this worker was in."""
        inside = self._point
        blame = None if inside is None else Blame(inside, cause)
        ahead = inside if inside is not None else max(self._said, default=-1) + 1
        return Finish(int(code), cause, blame, None if self._done else ahead, self._points)

    def _let_go(self) -> None:
        """Gives the worker its grace to end by itself; a second signal takes it away."""
        assert self._worker
        self._worker.ask_to_end()
        until = time.monotonic() + self._job.grace_s
        while not self._hurry and time.monotonic() < until:
            if self._worker.wait_for_exit(_TICK_S):
                return

    def _end_worker(self, code: int | None) -> str:
        """Kills the worker with all it started; returns in words what would not go. None there: does nothing."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        left = worker.end()
        code = worker.code if code is None else code
        self._stream.write(WorkerExited(worker.session, code, left or worker.how_it_ended(code)))
        return left

    def _write_down(self, causes: dict[int, tuple[PointStatus, str]]) -> str:
        try:
            if causes and journal.write_down(self._job, causes, self._said):
                self._unsealed = True
        except SlicebenchError as error:
            return f"results could not be written down: {error}"
        return ""

    def _seal(self, code: int) -> str:
        if not self._unsealed:
            return ""
        hurry = code in (ExitCode.INTERRUPTED, ExitCode.INFRASTRUCTURE)
        return journal.seal(self._job, self._label, _SEAL_IN_A_HURRY_S if hurry else _SEAL_S)

    def _say(self, text: str) -> None:
        self._stream.write(Log(text, "supervisor"))

    def _report(self, report: Report) -> None:
        self._post.report(report, time.monotonic())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._hurry, self._stopping = self._stopping, True
        name = signal.Signals(number).name
        self._inbox.put(lambda: self._stop(ExitCode.INTERRUPTED, f"told to stop ({name})"))


def main() -> int:
    """Reads the job file and supervises; returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m runtime.supervise JOB.json", file=sys.stderr)
        return ExitCode.BAD_INPUT
    try:
        return Supervisor(Job.read(Path(sys.argv[1]))).run()
    except SlicebenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
