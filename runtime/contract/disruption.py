"""What a suite may ask to be done to its workers in the middle of a point, and what the next session is told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Moment = Literal["saved", "saving"]
Signal = Literal["SIGKILL", "SIGTERM"]

MOMENTS: tuple[Moment, ...] = ("saved", "saving")
SIGNALS: tuple[Signal, ...] = ("SIGKILL", "SIGTERM")

ALL = "all"
"""In place of a worker's number."""


@dataclass(frozen=True)
class Disruption:
    """In every repeat of a point, once: `worker` (a number, or all) is killed, and has to go on after a restart.

    Either `at_step`: when every worker has said that the checkpoint of this step, or of a later one, is complete
    (`moment` saved) or has begun to be written (saving); or `after_s` seconds after the repeat's first step began.
    A worker that gets SIGTERM is killed once its grace is over.
    """

    worker: int | Literal["all"] = 0
    at_step: int | None = None
    moment: Moment = "saved"
    after_s: float | None = None
    signal: Signal = "SIGKILL"

    @classmethod
    def of(cls, told: Mapping[str, Any] | None) -> Disruption | None:
        """Returns the disruption that a record tells of. Raises TypeError when it is none."""
        return None if told is None else cls(**told)

    def strikes(self, worker: int) -> bool:
        """Says whether a worker is to be killed."""
        return self.worker in (ALL, worker)

    @property
    def words(self) -> str:
        """What is to happen, for people."""
        who = "all workers" if self.worker == ALL else f"worker {self.worker}"
        if self.at_step is None:
            return f"{self.signal} to {who} {self.after_s:g} s after the first step began"
        when = "once step {} is saved" if self.moment == "saved" else "while step {} is being saved"
        return f"{self.signal} to {who} {when.format(self.at_step)}"


@dataclass(frozen=True)
class Restart:
    """What the session after a disruption is told: it goes on in this `repeat` of its first point.

    With `point`, what another attempt is told after one that was taken away: it goes on in that point, once it comes to
    it. `saved` is the newest step that every worker had said was complete, `begun` the newest that any had begun.
    `killed_at` and `ended_at` are seconds of this host's monotonic clock: when this worker was sent the signal
    (None: it was another), and when its supervisor was told to end what was left of the session.
    """

    repeat: int
    saved: int | None
    begun: int
    killed_at: float | None = None
    ended_at: float | None = None
    point: int | None = None

    def to_json(self) -> str:
        """Returns it as one line, for a flag."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Restart:
        """Reads what `to_json` wrote. Raises ValueError when it is something else."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"no restart: {error}") from error
