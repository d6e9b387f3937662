"""Supervises one worker of one attempt: starts it, listens, ends all of it, says how it went.

`python -m runtime.supervise JOB.json` needs nothing but Python's standard library and Linux. It exits
with 0 when every point passed, 1 when one failed, 3 when a machine or the run itself failed it, 130 when
it was told to stop.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from runtime.contract.disruption import Restart
from runtime.contract.errors import ExitCode, InfrastructureError, SlicebenchError
from runtime.contract.job import Job
from runtime.contract.names import HOST_FILE, STREAM_FILE
from runtime.contract.progress import (
    Exited,
    FromWorker,
    Log,
    Started,
    WorkerExited,
)
from runtime.supervision import processes, tpu_metrics
from runtime.supervision.account import Account, ruling_on
from runtime.supervision.blow import Blow
from runtime.supervision.command import command_line
from runtime.supervision.guarding import dismiss_guard, start_guard
from runtime.supervision.host_counters import HostCounters
from runtime.supervision.messages import (
    Command,
    End,
    Ended,
    Finish,
    Left,
    Report,
    Said,
    Start,
    Stopping,
    Strike,
)
from runtime.supervision.posts import Chair, Member, Post
from runtime.supervision.renewal import Watch
from runtime.supervision.sidecar import Beside
from runtime.supervision.stream import Stream, records
from runtime.supervision.worker import Worker

_TICK_S = 0.1
_SEAL_S, _SEAL_WHERE_ALL_FAILS_S = 120.0, 8.0

_ALL_DONE_S, _AFTER_GRACE_S = 8.5, 3.5
"""Who stops a run kills this process 10 s after asking (tasks/stages/run.py); a longer grace puts that off."""

_END_S, _END_IN_A_HURRY_S = 10.0, 1.5
_READ_S, _READ_IN_A_HURRY_S = 10.0, 3.0


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
        self._beside = Beside(job, self._label, self._beside_gone)
        self._session = 0
        self._account = Account(job, self._label)
        self._blow = Blow()
        self._stopping = self._hurry = False
        self._finished: Exited | None = None
        self._post: Post = (
            Chair(job, self._obey, self._say, self._inbox.put, time.monotonic)
            if job.worker == 0
            else Member(job, self._obey, self._stop_where_it_is, self._inbox.put, self._is_attempt)
        )

    def run(self) -> int:
        """Supervises until it is over. Returns the exit code."""
        if self._stream.last and isinstance(self._stream.last.body, Exited):
            return self._stream.last.body.code  # whoever started it again may read how it ended
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        started = self._account.recall(records(self._stream.path))
        self._guard = start_guard((self._label, self._beside.label), self._job.code, os.environ)
        processes.adopt_orphans()
        asks_tpu = tpu_metrics.read if self._job.platform == "tpu" else None
        counters = HostCounters(Path(self._job.scratch, HOST_FILE), self._say, asks_tpu)
        try:
            if started:
                cause = "the supervisor of this attempt was killed"
                self._obey(self._account.ending(ExitCode.INFRASTRUCTURE, cause))
            else:
                self._supervise()
        finally:
            if self._worker:
                self._worker.end()
            self._beside.end()
            counters.stop()
            self._finished = self._finished or Exited(ExitCode.INFRASTRUCTURE, "the supervisor itself failed")
            self._stream.close(self._finished)
            self._post.close()
            dismiss_guard(self._guard)
        if self._finished.cause:
            print(self._finished.cause, file=sys.stderr, flush=True)
        return self._finished.code

    def _supervise(self) -> None:
        now = time.monotonic()
        watch, opened = Watch(self._job, now), self._open(now)
        while not self._finished:
            self._do_next()
            now = time.monotonic()
            if not self._finished and (cause := watch.lost(now)):
                self._stop(ExitCode.INFRASTRUCTURE, cause)
            if not self._finished and opened:
                self._blow.tick(self._worker, now)
                self._post.tick(now)
            elif not self._finished:
                opened = self._open(now)

    def _open(self, now: float) -> bool:
        """Finds the others, once what stands beside the worker is up; says whether it is."""
        try:
            if not self._beside.is_up():
                return False
            self._post.open(now)
        except (InfrastructureError, OSError) as error:
            self._stop(ExitCode.INFRASTRUCTURE, str(error))
        return True

    def _do_next(self) -> None:
        """Does what came in, or else collects dead orphans; not the worker: a thread waits for its exit code."""
        try:
            self._inbox.get(timeout=_TICK_S)()
        except queue.Empty:
            processes.reap_orphans(*self._beside.pids, *([self._worker.pid] if self._worker else []))

    def _beside_gone(self, why: str) -> None:
        self._inbox.put(lambda: self._stop(ExitCode.INFRASTRUCTURE, why))

    def _is_attempt(self, attempt: int) -> None:
        self._job = self._account.is_attempt(attempt)

    def _obey(self, command: Command) -> None:
        if self._finished:
            return
        match command:
            case Start():
                self._start(command)
            case Strike() if command.session == self._session and self._job.worker in command.workers:
                self._blow.strike(self._worker, signal.Signals[command.signal], self._job.grace_s)
            case End():
                self._end(command)
            case Finish():
                self._finish(command)

    def _start(self, start: Start) -> None:
        if start.blame:
            self._account.write_down({start.blame.point: ruling_on(start.blame)})
        self._session = session = start.session
        restart = self._blow.over(start.restart) or self._left_off(start)
        command = command_line(self._job, start.first_point, start.coordinator, restart)
        beside, job = self._beside, self._job
        try:
            self._worker = Worker(
                replace(job, env={**job.env, **beside.worker_env}),
                session,
                command,
                self._label,
                (self._guard.pid, *beside.pids),
                self._stream.write,
                on_progress=lambda body: self._inbox.put(lambda: self._told(session, body)),
                on_exit=lambda code: self._inbox.put(lambda: self._left(session, code)),
            )
        except OSError as error:
            self._stop(ExitCode.INFRASTRUCTURE, f"cannot start the worker: {error}")
        else:
            self._account.session_begins()
            self._stream.write(Started(session, self._worker.pid, start.first_point))

    def _left_off(self, start: Start) -> Restart | None:
        """Returns where the attempt before this one left off, unless the session begins beyond that."""
        told = self._job.restart
        return told if told is not None and (told.point or 0) >= start.first_point else None

    def _told(self, session: int, body: FromWorker) -> None:
        if session != self._session or self._finished:
            return
        self._account.told(body)
        self._report(Said(session, body))

    def _left(self, session: int, code: int) -> None:
        worker = self._worker
        if worker is None or session != self._session:
            return
        if why := self._beside.gone():  # what the worker failed by then is its echo
            self._stop(ExitCode.INFRASTRUCTURE, why)
            return
        self._account.left(code)
        report = Left(session, code, worker.last_words(), worker.last_lines(), worker.out_of_memory())
        self._end_worker(code)
        self._report(report)

    def _end(self, end: End) -> None:
        if end.session != self._session:
            return
        struck = self._blow.noticed() and self._worker is not None
        if end.deadline:
            self._stream.write(end.deadline)
        state, waits = "", False
        if self._worker and end.dump:
            state, waits = self._worker.dump()
        left = self._end_worker(None)
        self._report(Ended(end.session, state, waits, left, struck))

    def _finish(self, finish: Finish) -> None:
        """Ends it all. Who is told to stop may be killed soon: the cause comes first, and all has its time."""
        hurry = finish.code == ExitCode.INTERRUPTED
        now, grace_s = time.monotonic(), self._job.grace_s
        until = now + max(_ALL_DONE_S, grace_s + _AFTER_GRACE_S)
        if finish.cause:
            self._say(f"it ends: {finish.cause}")
        suite = None
        if self._worker and hurry:
            suite = self._account.suite(finish, grace_s)
            self._worker.let_go(grace_s, lambda: self._hurry)  # a second signal takes it away
            if suite and not self._hurry:  # what reads it bears our label: it goes when the worker is ended
                suite.points(now + grace_s - time.monotonic())
        left = self._end_worker(None, _END_IN_A_HURRY_S if hurry else _END_S)
        suite = suite or self._account.suite(finish, _READ_IN_A_HURRY_S if hurry else _READ_S)
        written = self._account.close(finish, suite)
        limit_s = _SEAL_S if finish.code != ExitCode.INFRASTRUCTURE else _SEAL_WHERE_ALL_FAILS_S
        sealed = self._account.seal(max(1.0, until - time.monotonic()) if hurry else limit_s)
        code, cause = finish.code, finish.cause
        if trouble := [told for told in (left, written, sealed) if told]:
            code = code if code == ExitCode.INTERRUPTED else ExitCode.INFRASTRUCTURE
            cause = "; ".join([cause, *trouble] if cause else trouble)
        self._finished = Exited(int(code), cause)

    def _stop(self, code: int, cause: str) -> None:
        """Ends because of something here; tells the others, and does not wait for them to answer."""
        if self._finished:
            return
        self._report(Stopping(int(code), cause))
        self._obey(self._account.ending(code, cause))

    def _stop_where_it_is(self, code: int, cause: str) -> None:
        place = self._account.place
        self._stop(code, f"{cause}; worker {self._job.worker} was in {place}" if place else cause)

    def _end_worker(self, code: int | None, limit_s: float = _END_S) -> str:
        """Kills the worker with all it started; returns in words what would not go. None there: does nothing."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        left = worker.end(limit_s)
        code = worker.code if code is None else code
        self._stream.write(WorkerExited(worker.session, code, left or worker.how_it_ended(code)))
        return left

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
