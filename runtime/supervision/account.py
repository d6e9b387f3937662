"""What one worker did of its suite, as it told and as is written down when it cannot do that any more."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from runtime.contract.counting import which
from runtime.contract.errors import ExitCode, SlicebenchError
from runtime.contract.job import Job
from runtime.contract.names import ATTEMPT_FILE
from runtime.contract.progress import Done, FromWorker, PointPhase, Record, Started
from runtime.supervision import journal
from runtime.supervision.journal import Ruling
from runtime.supervision.messages import Blame, Finish


def ruling_on(blame: Blame) -> Ruling:
    """Returns what is written down of a point that failed."""
    return Ruling("failed", blame.cause, blame.worker)


"""Status and cause by point."""


class Account:
    """Where the worker is in its suite, and what of that its sealed results still lack.

    `point` is the one it is in, or None; `done`: it is through; `unsealed`: there are results that nobody sealed.
    """

    def __init__(self, job: Job, label: str) -> None:
        """`label` is put on what is started to read and write."""
        self._job, self._label = job, label
        self._said: dict[int, PointPhase] = {}
        self._points = 0
        self.point: int | None = None
        self.done = False
        # Where a sidecar sees what workers send, they leave their results here for the supervisor to bring.
        self._leaves = self.unsealed = job.sidecar is not None
        # Who does not know which attempt it is could write over what another has left.
        self._seals = job.worker == 0 or not job.again

    def is_attempt(self, attempt: int) -> Job:
        """Takes which attempt it is, before any worker is started; returns the job with it."""
        self._seals = True
        if self._job.again:
            self._job = replace(self._job, attempt=attempt)
            Path(self._job.scratch, ATTEMPT_FILE).write_text(f"{attempt}\n")
        return self._job

    def session_begins(self) -> None:
        """A worker is being started."""
        self.point, self.done, self.unsealed = None, False, True

    def left(self, code: int) -> None:
        """The worker has ended; one that was through has sealed its results itself."""
        if self.done and code in (0, 1) and not self._leaves:
            self.unsealed = False

    def told(self, body: FromWorker) -> None:
        """The worker tells how far it is."""
        match body:
            case PointPhase():
                self._points = max(self._points, body.points)
                self.point = body.point if body.phase == "begin" else None
                if body.phase == "begin" or body.point not in self._said:
                    self._said[body.point] = body
            case Done():
                self.done = True

    @property
    def place(self) -> str:
        """Which point the worker is in, in words; empty between points."""
        if self.point is None:
            return ""
        return which(self.point, self._points, self._said[self.point].benchmark)

    def recall(self, records: Iterable[Record]) -> bool:
        """Takes what an earlier supervisor of this attempt wrote; says whether it had started a worker."""
        started = False
        for record in records:
            if isinstance(record.body, Started):
                started = self.unsealed = True
            elif isinstance(record.body, FromWorker):
                self.told(record.body)
        return started

    def ending(self, code: int, cause: str) -> Finish:
        """Returns how to end when nobody else can say: by what this worker was in."""
        blame = None if self.point is None else Blame(self.point, cause)
        ahead = self.point if self.point is not None else max(self._said, default=-1) + 1
        return Finish(code, cause, blame, None if self.done else ahead, self._points)

    def write_down(self, judged: Mapping[int, Ruling]) -> str:
        """Writes what became of points into the journal. Returns nothing, or why it could not."""
        try:
            if judged and journal.write_down(self._job, judged, self._said):
                self.unsealed = True
        except SlicebenchError as error:
            return f"results could not be written down: {error}"
        return ""

    def close(self, finish: Finish, suite: Suite | None) -> str:
        """Writes down what became of the last session, and then of the points that were never reached.

        In this order: time may run out. Returns nothing, or what went wrong.
        """
        judged = self._never_run(finish, self._said)
        if finish.blame:
            ruling = ruling_on(finish.blame)
            # What was told to stop, or lost what it stood on, has not failed: it could not do the rest.
            cut = finish.code in (ExitCode.INTERRUPTED, ExitCode.INFRASTRUCTURE)
            judged[finish.blame.point] = replace(ruling, status="not_run") if cut else ruling
        trouble = self.write_down(judged)
        if trouble or suite is None:
            return trouble
        self._said = {**suite.points(), **self._said}
        everything = {*self._said, *range(max(self._points, finish.points))}
        return self.write_down({**self._never_run(finish, everything), **judged})

    def seal(self, limit_s: float) -> str:
        """Has what is unsealed sealed. Returns nothing, or why that was not done."""
        return journal.seal(self._job, self._label, limit_s) if self.unsealed and self._seals else ""

    def suite(self, finish: Finish, limit_s: float) -> Suite | None:
        """Begins to read which points the suite has, if any may never have been reached."""
        return None if finish.not_run_from is None else Suite(self._job, self._label, limit_s)

    def _never_run(self, finish: Finish, points: Iterable[int]) -> dict[int, Ruling]:
        if finish.not_run_from is None:
            return {}
        ahead = (point for point in points if point >= finish.not_run_from and self._job.runs(point))
        return dict.fromkeys(ahead, Ruling("not_run", finish.cause))


class Suite:
    """The points of a job's suite, read by the worker's Python while something else goes on."""

    def __init__(self, job: Job, label: str, limit_s: float) -> None:
        """Reading may take `limit_s`."""
        self._points: dict[int, PointPhase] = {}
        self._thread = threading.Thread(target=self._read, args=(job, label, limit_s), daemon=True)
        self._thread.start()

    def points(self, limit_s: float | None = None) -> dict[int, PointPhase]:
        """Waits, and returns them as they would begin; none when the suite could not be read in time."""
        self._thread.join(None if limit_s is None else max(0.0, limit_s))
        return self._points

    def _read(self, job: Job, label: str, limit_s: float) -> None:
        self._points = journal.all_points(job, label, limit_s)
