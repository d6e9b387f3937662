"""How far the steps of an attempt came, and how long it took after one that was taken away until they went on.

All of it is heard here and timed by our own clock: those of hosts and clusters may be any, and do not compare.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.contract import progress
from runtime.contract.disruption import Restart
from runtime.contract.metrics import RECOVERY, TIME
from runtime.contract.names import RESULTS_FOLDER
from tasks.stages.attempts import Started
from tasks.stages.context import Run
from tasks.targets.types import PREEMPTED, Event, LogLine, Progress, State

if TYPE_CHECKING:
    import pyarrow as pa

_OF_WORKERS = ("setup_s", "restore_s", "first_step_s")
"""Parts of a recovery that the workers themselves tell."""

_WITH_HARDWARE = frozenset({"provisioning", "starting", "running"})
"""States in which a workload has had its turn."""

Clock = Callable[[], float]


@dataclass
class _Place:
    """One repeat of a point: the newest step of each worker that is complete, and of all that was begun.

    `done`: by step, the workers on which its checkpoint is complete, of those that this attempt saved.
    """

    saved: dict[int, int] = field(default_factory=dict)
    done: dict[int, set[int]] = field(default_factory=dict)
    begun: int = -1
    resumed: set[int] = field(default_factory=set)


class Hearing:
    """Listens to one attempt, which was told to go on at `restart` if that is anything.

    `taken_at`: when the attempt before was seen to be taken away, by `clock`; None: it was not, or nobody saw it.
    """

    def __init__(
        self,
        restart: Restart | None,
        workers: int,
        taken_at: float | None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._restart, self._workers, self._before, self._clock = restart, workers, taken_at, clock
        self._has_turn_at: float | None = None
        self._joined: dict[int, float] = {}
        self._places: dict[tuple[int, int], _Place] = {}
        self._goes_on_first = True
        self.taken_at: float | None = None
        """When this attempt was seen to be taken away."""

    def started(self) -> None:
        """The workload is handed over. Where there is a queue, its turn is yet to come."""
        self._has_turn_at = self._clock()

    def hear(self, event: Event) -> None:
        """Takes one event."""
        now = self._clock()
        match event:
            case State(state="queued") if not self._joined:
                self._has_turn_at = None
            case State(state=state) if state == PREEMPTED:
                self.taken_at = self.taken_at or now
            case State(state=state) if state in _WITH_HARDWARE and self._has_turn_at is None:
                self._has_turn_at = now
            case Progress(phase="begin", operation="") if (
                self._restart and event.point != self._restart.point
            ):
                self._goes_on_first = self._goes_on_first and bool(self._place_of(self._restart).resumed)
            case LogLine(body=progress.Init(phase="end")):
                self._joined[event.worker] = now
            case LogLine(body=progress.Step() as step):
                self._step(event.worker, step)

    def reached(self) -> Restart | None:
        """Returns where the next attempt can go on; None: nothing was begun that one can go on with."""
        if not self._places:
            return self._restart
        point, repeat = max(self._places)
        place = self._places[point, repeat]
        saved = min(place.saved.values()) if len(place.saved) == self._workers else None
        return Restart(repeat, saved, place.begun, point=point)

    def complete(self) -> list[int]:
        """Returns the steps, of the newest repeat, whose checkpoint every worker has said to be complete."""
        if not self._places:
            return []
        done = self._places[max(self._places)].done
        return sorted(step for step, workers in done.items() if len(workers) == self._workers)

    def recovery(self) -> Mapping[str, Any] | None:
        """Returns how long recovering took, up to where each worker's own times begin; None: it did not recover, or
        something else came before.
        """
        restart, before = self._restart, self._before
        if restart is None or before is None or not self._goes_on_first:
            return None
        went_on = sorted(self._place_of(restart).resumed & set(self._joined))
        if not went_on:
            return None
        turn_at = self._has_turn_at or min(self._joined.values())
        start_s = {str(worker): max(0.0, self._joined[worker] - turn_at) for worker in went_on}
        return {
            "point": restart.point,
            "repeat": restart.repeat,
            "queue_s": max(0.0, turn_at - before),
            "start_s": start_s,
        }

    def _place_of(self, restart: Restart) -> _Place:
        return self._places.get((restart.point or 0, restart.repeat), _Place())

    def _step(self, worker: int, step: progress.Step) -> None:
        place = self._places.setdefault((step.point, step.repeat), _Place())
        place.begun = max(place.begun, step.step)
        if step.state in ("saved", "resumed"):
            place.saved[worker] = max(step.step, place.saved.get(worker, -1))
        if step.state == "saved":
            place.done.setdefault(step.step, set()).add(worker)
        if step.state == "resumed":
            place.resumed.add(worker)


def goes_on(run: Run, attempts: Sequence[Started], points: Sequence[int]) -> Restart | None:
    """Returns where the next attempt, of these points, goes on; None: it begins with them.

    Only what was stopped from outside is gone on with, and only where its checkpoints are still there.
    """
    last = attempts[-1] if attempts else None
    if last is None or not last.counts or last.end not in ("preempted", "lost", "interrupted"):
        return None
    reached = last.reached
    if reached is None or reached.point not in points or (last.ref is not None and last.ref.output):
        return None
    point = next((one for one in run.spec.points if one.index == reached.point), None)
    return reached if point is not None and point.disruption is None else None


def recovery_file(attempt: int) -> str:
    """Returns where it lies what recovering took, as far as it was timed here, relative to the run's folder."""
    return f"{RESULTS_FOLDER}/recovery-a{attempt}.json"


def write_recovery(run: Run, attempt: int, told: Mapping[str, Any] | None) -> None:
    """Writes down what was heard of an attempt's recovery, if it recovered."""
    if told is not None:
        run.folder.write(recovery_file(attempt), json.dumps(told, indent=1).encode())


def recovery_samples(run: Run, attempts: Sequence[Started], table: pa.Table) -> list[pa.Table]:
    """Returns the samples that follow from what was written down: queue, start and the whole, by worker.

    `table` has those of the workers, who timed the rest.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows: list[dict[str, Any]] = []
    own: list[dict[str, Any]] | None = None
    for attempt in attempts:
        told = _read(run, attempt.n)
        if told is None:
            continue
        if own is None:
            own = table.filter(pc.equal(table.column("operation"), RECOVERY)).to_pylist()
        rows += _rows(attempt.n, told, own)
    return [pa.Table.from_pylist(rows, schema=table.schema)] if rows else []


def _rows(attempt: int, told: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for worker, start_s in told["start_s"].items():
        place = (attempt, told["point"], told["repeat"], int(worker))
        mine = {
            row["metric"]: row
            for row in own
            if (row["attempt"], row["point"], row["repeat"], row["worker"]) == place
        }
        if not all(name in mine for name in _OF_WORKERS):
            continue  # it was stopped again before its first step
        parts = {"queue_s": float(told["queue_s"]), "start_s": float(start_s)}
        whole = sum(parts.values()) + sum(mine[name]["value"] for name in _OF_WORKERS)
        made += [
            {**mine["restore_s"], "metric": metric, "value": value}
            for metric, value in {TIME: whole, **parts}.items()
        ]
    return made


def _read(run: Run, attempt: int) -> Mapping[str, Any] | None:
    content = run.folder.read(recovery_file(attempt))
    try:
        told = json.loads(content) if content else None
        return told if told and {"point", "repeat", "queue_s", "start_s"} <= set(told) else None
    except ValueError:
        return None
