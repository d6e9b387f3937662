"""What is known of the session that runs: where each worker is, and what was told of a failure. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.contract.counting import which
from runtime.contract.progress import Deadline, Done, FromWorker, Init, Operation, PointPhase
from runtime.supervision.messages import Ended, Left


@dataclass
class Seat:
    """What is known of one worker in the running session. Times are seconds of supervisor 0's monotonic clock."""

    worker: int
    joined: bool = False
    point: int | None = None
    next_point: int = 0
    points: int = 0
    steps: int = 0
    round: int = 0
    latest: int = -1
    deadline_s: float | None = None
    point_began: float = 0.0
    operations: dict[str, float] = field(default_factory=dict)
    done: bool = False
    left: Left | None = None
    ended: Ended | None = None

    @property
    def place(self) -> str:
        """Where the worker is within its point, in words: which point that is, whoever tells of it says."""
        if not self.joined:
            return "before it had joined the others"
        if self.point is None:
            through = self.done or 0 < self.points <= self.next_point
            return "after its last benchmark" if through else f"before {which(self.next_point, self.points)}"
        return f"in {' and '.join(self.operations)}" if self.operations else "between operations"

    @property
    def blamed_point(self) -> int:
        """The point that suffers when this worker fails now."""
        return self.next_point if self.point is None else self.point

    @property
    def position(self) -> tuple[int, int, int]:
        """How far the worker is: the least one holds up the others."""
        return self.round, self.blamed_point, self.steps

    def went(self, body: FromWorker, now: float) -> None:
        """Takes what the worker told of how far it is."""
        self.steps += 1
        match body:
            case Init(phase="end"):
                self.joined = True
            case PointPhase(phase="begin"):
                self.round += body.point < self.latest  # points that take turns come round again
                self.latest = body.point
                self.point, self.points, self.steps, self.operations = body.point, body.points, 0, {}
                self.deadline_s = body.deadline_s
            case PointPhase(phase="end"):
                self.point, self.operations = None, {}
            case Operation(phase="begin"):
                self.operations[body.operation] = now
            case Operation(phase="end"):
                self.operations.pop(body.operation, None)
            case Done():
                self.done = True


@dataclass(frozen=True)
class Witness:
    """One worker's account of a failure. `rank` orders them: 0 is surely a cause, 3 is surely a consequence."""

    worker: int
    point: int
    cause: str
    rank: int

    @property
    def clear(self) -> bool:
        """Whether it can be the root cause."""
        return self.rank < CONSEQUENCE


KILLED, SAID, SILENT, CONSEQUENCE = range(4)


class Session:
    """The workers of one session, from their start until all are gone. Number 0, in which nobody sits, is before any.

    `heard` is when a worker last told something, `deadline` what ended the session, if one passed.
    """

    def __init__(self, number: int, began: float, seats: Iterable[Seat] = ()) -> None:
        self.number = number
        self.began = self.heard = began
        self.seats = {seat.worker: seat for seat in seats}
        self.witnesses: list[Witness] = []
        self.deadline: Deadline | None = None

    @property
    def inside(self) -> list[int]:
        """The points that workers are in."""
        return [seat.point for seat in self.seats.values() if seat.point is not None]

    @property
    def unfinished(self) -> list[int]:
        """The points that suffer when the session ends now: of each worker that is not through, the one it is at."""
        return [seat.blamed_point for seat in self.seats.values() if not seat.done]

    def told(self, worker: int, body: FromWorker, now: float) -> None:
        """Takes what a worker told."""
        self.heard = now
        self.seats[worker].went(body, now)
        if isinstance(body, PointPhase) and body.phase == "begin":
            for seat in self.seats.values():
                seat.joined = True  # JAX lets none join before all have; word of it may come late

    def accounts(self, worker: int) -> list[Witness]:
        """Returns what a worker told, or was seen, to have failed by."""
        return [witness for witness in self.witnesses if witness.worker == worker]
