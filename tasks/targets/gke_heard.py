"""What was heard of the workers of one JobSet: how far each is, how it ended, and which ends are held back."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.contract import progress
from runtime.contract.errors import ExitCode
from tasks.targets.streams import event_of
from tasks.targets.types import Event, Exited, LogLine

_OF_ITS_OWN = frozenset({ExitCode.DONE, ExitCode.WORKLOAD_FAILED, ExitCode.BAD_INPUT})
"""Exit codes that say what the workload came to, whatever the cluster does meanwhile."""


@dataclass
class Workers:
    """How far each worker is: the last record that was told of, and how it ended. `held` is not told yet."""

    cursors: dict[int, int]
    pods: dict[int, str] = field(default_factory=dict)
    ended: dict[int, Exited] = field(default_factory=dict)
    held: dict[int, Exited] = field(default_factory=dict)

    def said(self, worker: int, text: str) -> Event | None:
        """Returns the event of a line; None for one that was told already, or that is held back."""
        try:
            record = progress.parse_record(text.encode())
        except ValueError:  # of the container, not of its supervisor
            return LogLine(worker, self.cursors.get(worker, 0), text)
        if record.seq <= self.cursors.get(worker, 0):
            return None
        self.cursors[worker] = record.seq
        event = event_of(worker, record)
        if not isinstance(event, Exited):
            return event
        if event.code in _OF_ITS_OWN:
            self.ended[worker] = event
            return event
        self.held[worker] = event
        return None

    def silent(self, count: int) -> list[int]:
        """Returns the workers, of so many, that did not say how they ended."""
        return [worker for worker in range(count) if worker not in self.ended and worker not in self.held]
