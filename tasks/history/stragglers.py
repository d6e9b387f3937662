"""Who was slowest, how often and by how much: of each operation, and over all of a run. Pure.

In each occurrence of an operation that all workers timed, the slowest is the one with the longest time, and it is late
by what its time is above the median of the others': so long they had nothing to wait for but this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from runtime.contract.counting import counted
from runtime.contract.metrics import TIME
from tasks.history.labels import labels
from tasks.history.measurement import Measurement
from tasks.history.quantities import seconds
from tasks.history.results import Results
from tasks.history.summary import is_shown

_BY_CHANCE = 0.01
"""A worker that is slowest as often as one would be by chance in fewer than one of a hundred cases is no accident."""

_LATE = 0.05
"""Less than this of an operation's time is not worth telling."""


@dataclass(frozen=True)
class WorkerTimes:
    """One worker's part in an operation. `slowest_in` is in how many of its occurrences nobody was slower; `late_s` the
    median of how late it was in those, None where there were none."""

    worker: int
    median_s: float
    fastest_s: float
    slowest_s: float
    slowest_in: int
    late_s: float | None


@dataclass(frozen=True)
class Race:
    """An operation of a point that several workers timed together, `occurrences` times. Workers the latest first."""

    point: int
    operation: str
    occurrences: int
    workers: Sequence[WorkerTimes]

    @property
    def straggler(self) -> WorkerTimes | None:
        """The worker that was slowest far more often than by chance, and by so much that it matters; else None."""
        worst = max(self.workers, key=lambda one: one.slowest_in)
        usual = float(np.median([one.median_s for one in self.workers]))
        if worst.late_s is None or worst.late_s < _LATE * usual:
            return None
        return worst if _chance(worst.slowest_in, self.occurrences, len(self.workers)) <= _BY_CHANCE else None


@dataclass(frozen=True)
class Lateness:
    """One worker over all operations that were raced: in how many occurrences of how many it was the slowest, and how
    long all others waited for it then, in all."""

    worker: int
    slowest_in: int
    occurrences: int
    late_s: float


def races(results: Results) -> list[Race]:
    """Returns what several workers timed together of the points that passed, in order of measuring."""
    passed = {point.point: point for point in results.points if point.status == "passed"}
    found = (
        race_of(one)
        for one in results.measurements
        if one.metric == TIME and one.point in passed and is_shown(one.operation, passed[one.point])
    )
    return [race for race in found if race is not None]


def race_of(time: Measurement) -> Race | None:
    """Returns who was how slow; None for one worker, or where nothing was timed by all."""
    values = _whole(time)
    if values.shape[0] == 0 or values.shape[1] < 2:
        return None
    slowest, late = _late(values)
    workers = []
    for place, worker in enumerate(time.workers):
        own, when = values[:, place], slowest == place
        workers.append(
            WorkerTimes(
                worker=int(worker),
                median_s=float(np.median(own)),
                fastest_s=float(own.min()),
                slowest_s=float(own.max()),
                slowest_in=int(when.sum()),
                late_s=float(np.median(late[when])) if when.any() else None,
            )
        )
    workers.sort(key=lambda one: (-one.median_s, one.worker))
    return Race(time.point, time.operation, len(values), workers)


def lateness(results: Results) -> list[Lateness]:
    """Returns a line for each worker over the whole run, whom others waited for longest first; empty for one worker."""
    passed = {point.point: point for point in results.points if point.status == "passed"}
    count, waited = dict[int, int](), dict[int, float]()
    total = 0
    for time in results.measurements:
        if (
            time.metric != TIME
            or time.point not in passed
            or not is_shown(time.operation, passed[time.point])
        ):
            continue
        values = _whole(time)
        if values.shape[0] == 0 or values.shape[1] < 2:
            continue
        total += len(values)
        slowest, late = _late(values)
        for place, worker in enumerate(time.workers):
            when = slowest == place
            count[int(worker)] = count.get(int(worker), 0) + int(when.sum())
            waited[int(worker)] = waited.get(int(worker), 0.0) + float(late[when].sum())
    told = [Lateness(worker, count[worker], total, waited[worker]) for worker in count]
    return sorted(told, key=lambda one: (-one.late_s, one.worker))


def straggler_lines(results: Results, hosts: Mapping[int, str]) -> list[str]:
    """Says in a sentence each whom the others waited for again and again."""
    names, told = labels(results.points), []
    for race in races(results):
        worst = race.straggler
        if worst is None or worst.late_s is None:
            continue
        told.append(
            f"{names[race.point]}: {race.operation} waits for {called(worst.worker, hosts)}: slowest in"
            f" {worst.slowest_in} of {counted(race.occurrences, 'repeat')}, by {seconds(worst.late_s)}"
        )
    return told


def called(worker: int, hosts: Mapping[int, str]) -> str:
    """Returns which worker is meant, with its host where that is known."""
    return f"worker {worker} ({hosts[worker]})" if hosts.get(worker) else f"worker {worker}"


def hosts_of(results: Results) -> dict[int, str]:
    """Returns the name of each worker's host, as far as workers told."""
    return {
        int(told["worker"]): str(told["host"])
        for told in results.limits
        if told.get("host") and "worker" in told
    }


def _whole(time: Measurement) -> NDArray[np.float64]:
    counted = time.values[~time.warmup]
    whole: NDArray[np.float64] = counted[~np.isnan(counted).any(axis=1)]
    return whole


def _late(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the place of the slowest in each row, and how far above the median of the others it was."""
    slowest: NDArray[np.int64] = values.argmax(axis=1)
    others = np.sort(values, axis=1)[:, :-1]
    late: NDArray[np.float64] = values.max(axis=1) - np.median(others, axis=1)
    return slowest, late


def _chance(times: int, of: int, workers: int) -> float:
    """Returns how probable it is that some one worker is slowest so often, if all are alike."""
    p = 1 / workers
    tail = sum(comb(of, k) * p**k * (1 - p) ** (of - k) for k in range(times, of + 1))
    return min(1.0, workers * tail)
