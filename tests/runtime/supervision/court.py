"""A referee for tests: its clock, its commands, and words for what workers do."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.job import Deadlines
from runtime.contract.progress import FromWorker, Init, Operation, PointPhase
from runtime.supervision.messages import Command, Ended, Left, Said, Start
from runtime.supervision.referee import Referee

POINTS = 3


class Court:
    """A referee, its clock, and words for what workers do."""

    def __init__(
        self, workers: int = 2, deadlines: Deadlines | None = None, only: Sequence[int] | None = None
    ) -> None:
        self.now = 100.0
        self.commands: list[Command] = []
        self.workers = workers
        self.session = 1
        self.ports = iter(range(1000, 2000))
        coordinator = lambda: f"host:{next(self.ports)}"  # noqa: E731
        deadlines = deadlines or Deadlines(init_s=60, operation_s=10, point_s=None, run_s=None)
        self.referee = Referee(workers, deadlines, coordinator, self.now, only)

    def gather(self) -> Court:
        for worker in range(self.workers):
            self.take(self.referee.arrived(worker, self.now))
        return self

    def take(self, commands: list[Command]) -> None:
        self.commands += commands
        for command in commands:
            if isinstance(command, Start):
                self.session = command.session

    def say(self, worker: int, *bodies: FromWorker) -> None:
        for body in bodies:
            self.take(self.referee.report(worker, Said(self.session, body), self.now))

    def join(self) -> Court:
        for worker in range(self.workers):
            self.say(worker, Init("begin"), Init("end"))
        return self

    def begin(self, point: int, *workers: int, operation: str = "save") -> None:
        for worker in workers:
            self.say(worker, PointPhase("begin", point, POINTS))
            self.say(worker, Operation("begin", point, POINTS, operation=operation))

    def end(self, point: int, *workers: int, status: str = "passed", cause: str = "") -> None:
        for worker in workers:
            self.say(worker, Operation("end", point, POINTS, operation="save"))
            self.say(worker, PointPhase("end", point, POINTS, status=status, cause=cause))

    def leave(self, worker: int, code: int, tail: str = "", *, oom: bool = False) -> None:
        words = tail.splitlines()[-1] if tail else ""
        self.take(self.referee.report(worker, Left(self.session, code, words, tail, oom), self.now))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.1
            self.take(self.referee.tick(self.now))

    def ended(self, *states: str, waits: tuple[bool, ...] = ()) -> None:
        for worker in range(self.workers):
            state = states[worker] if states else ""
            report = Ended(self.session, state, waits[worker] if waits else False)
            self.take(self.referee.report(worker, report, self.now))

    def last(self) -> Command:
        return self.commands[-1]


def in_point(point: int = 1, workers: int = 2, deadlines: Deadlines | None = None) -> Court:
    court = Court(workers, deadlines).gather().join()
    for earlier in range(point):
        court.begin(earlier, *range(workers))
        court.end(earlier, *range(workers))
    court.begin(point, *range(workers))
    return court
