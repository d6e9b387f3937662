"""A supervisor's tie to the others: supervisor 0 judges and commands, the rest report and obey."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from runtime.contract.errors import InfrastructureError
from runtime.contract.job import Job
from runtime.supervision.messages import Command, End, Finish, Message, Report, Start, Strike
from runtime.supervision.referee import Referee
from runtime.supervision.rendezvous import Connection, Listener, free_address, join

Later = Callable[[Callable[[], None]], None]
"""Has something done in the supervisor's main thread."""


class Post(Protocol):
    """Where a supervisor stands. All methods are called in the main thread; `obey` is called there as well."""

    def open(self, now: float) -> None:
        """Finds the others."""

    def report(self, report: Report, now: float) -> None:
        """Tells supervisor 0 something."""

    def tick(self, now: float) -> None:
        """Time has passed."""

    def close(self) -> None:
        """Lets go of the others."""


class Chair:
    """Supervisor 0: has the referee, and a connection to each of the others."""

    def __init__(
        self,
        job: Job,
        obey: Callable[[Command], None],
        say: Callable[[str], None],
        later: Later,
        clock: Callable[[], float],
    ) -> None:
        """`say` takes what was judged, for people."""
        self._job, self._obey, self._say, self._later, self._clock = job, obey, say, later, clock
        self._others: dict[int, Connection] = {}
        self._listener: Listener | None = None
        coordinator = (lambda: free_address(job.rendezvous)) if job.workers > 1 else (lambda: None)
        self._referee = Referee(job.workers, job.deadlines, coordinator, clock(), job.points)

    def open(self, now: float) -> None:
        if self._job.workers > 1:
            job = self._job
            self._listener = Listener(job.rendezvous, job.token, job.attempt, self._arrived)
        self._do(self._referee.arrived(0, now))

    def report(self, report: Report, now: float) -> None:
        self._do(self._referee.report(0, report, now))

    def tick(self, now: float) -> None:
        self._do(self._referee.tick(now))

    def close(self) -> None:
        if self._listener:
            self._listener.close()
        for connection in self._others.values():
            connection.close()

    def _arrived(self, worker: int, connection: Connection) -> None:
        self._later(lambda: self._seat(worker, connection))

    def _seat(self, worker: int, connection: Connection) -> None:
        if worker in self._others or not 0 < worker < self._job.workers:
            connection.close()
            return
        self._others[worker] = connection
        connection.serve(
            lambda message: self._later(lambda: self._heard(worker, message)),
            lambda why: self._later(lambda: self._do(self._referee.lost(worker, why, self._clock()))),
        )
        self._do(self._referee.arrived(worker, self._clock()))

    def _heard(self, worker: int, message: Message) -> None:
        if not isinstance(message, Command):
            self._do(self._referee.report(worker, message, self._clock()))

    def _do(self, commands: list[Command]) -> None:
        for text in self._referee.news():
            self._say(text)
        for command in commands:
            for connection in self._others.values():
                connection.send(command)
            self._obey(command)


class Member:
    """Any other supervisor: has one connection, to supervisor 0; without it, it stops by itself."""

    def __init__(
        self,
        job: Job,
        obey: Callable[[Command], None],
        stop: Callable[[int, str], None],
        later: Later,
        joined: Callable[[int], None],
    ) -> None:
        """`joined` takes which attempt it is, as supervisor 0 says."""
        self._job, self._obey, self._stop, self._later = job, obey, stop, later
        self._tell_attempt = joined
        self._chair: Connection | None = None

    def open(self, now: float) -> None:
        """Does not wait: the connection is made in a thread, and the supervisor stays able to stop."""
        del now
        threading.Thread(target=self._join, daemon=True).start()

    def report(self, report: Report, now: float) -> None:
        del now
        if self._chair:
            self._chair.send(report)

    def tick(self, now: float) -> None:
        """Nothing to do: supervisor 0 judges."""

    def close(self) -> None:
        if self._chair:
            self._chair.close()

    def _join(self) -> None:
        try:
            connection = join(
                self._job.rendezvous,
                self._job.token,
                self._job.worker,
                self._job.deadlines.init_s,
            )
        except InfrastructureError as error:
            cause = str(error)
            self._later(lambda: self._stop(3, cause))
            return
        self._later(lambda: self._joined(connection))

    def _joined(self, connection: Connection) -> None:
        self._chair = connection
        self._tell_attempt(connection.attempt)
        connection.serve(
            lambda message: self._later(lambda: self._heard(message)),
            lambda why: self._later(lambda: self._stop(3, f"lost the supervisor of worker 0: {why}")),
        )

    def _heard(self, message: Message) -> None:
        if isinstance(message, Start | Strike | End | Finish):
            self._obey(message)
