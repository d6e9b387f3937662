"""Says after each repeat of a point whether another one is needed: the same on all workers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from runtime import distributed
from runtime.contract.metrics import TIME
from runtime.contract.repeats import Adaptive, counted_operations, widest
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import Point
from runtime.measure import Journaled
from runtime.results_io import Journal

_KNOWN, _GO_ON, _OUT_OF_TIME = range(3)


class Judge:
    """Listens to the samples of one point on this worker, on their way to the journal."""

    def __init__(
        self,
        point: Point,
        asked: Adaptive | None,
        before: Iterable[Sample] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`before`: what this attempt measured of the point, in a process before this one. `asked` None: all
        repeats are done."""
        self._point, self._asked, self._clock = point, asked, clock
        self._times: dict[str, list[float]] = {}
        self._began = clock()
        before = list(before)
        self.hear(before)
        if before:  # the clock of a process that is gone says nothing, that of the samples does
            self._began -= max(0.0, time.time() - min(sample.started_at for sample in before))

    def hear(self, records: Iterable[Sample | PointResult]) -> None:
        """Takes the times of what was measured and counts."""
        if self._asked is None:
            return
        for record in records:
            if isinstance(record, Sample) and record.metric == TIME and not record.warmup:
                self._times.setdefault(record.operation, []).append(record.value)

    def why_enough(self, done: int) -> str:
        """Returns why no other repeat is needed after `done` that count, or nothing. To be called by all workers."""
        asked = self._asked
        if asked is None or done < asked.least:
            return ""
        native = self._point.implementation == "native"
        times = {name: self._times[name] for name in counted_operations(self._times, native)}
        name, reach = widest(times)
        mine = _KNOWN if times and reach <= asked.until else _GO_ON
        if asked.time_s is not None and self._clock() - self._began >= asked.time_s:
            mine = max(mine, _OUT_OF_TIME if mine == _GO_ON else _KNOWN)
        ruling = distributed.largest(mine)
        width = f"± {100 * reach:.2g} %" if math.isfinite(reach) else "too few for an interval"
        if ruling == _KNOWN:
            return f"every median is known within ± {100 * asked.until:g} % after {done} repeats"
        if ruling == _OUT_OF_TIME:
            return f"{asked.time_s:g} s were over after {done} repeats; {name or 'nothing'}: {width}"
        if done >= asked.most:
            return f"{done} repeats are the most that it may do; {name or 'nothing'}: {width}"
        return ""


def measured(journal: Path, attempt: int, point: int) -> list[Sample]:
    """Returns what an attempt has measured of a point so far, in whatever process."""
    return [
        record
        for record in Journal.read(journal)
        if isinstance(record, Sample) and (record.attempt, record.point) == (attempt, point)
    ]


def occurrences_before(journal: Path, attempt: int, point: int, repeat: int) -> int:
    """Returns how often any operation of a repeat was begun before it was disrupted, on any worker: samples that
    belong together bear one number everywhere. To be called by all workers."""
    before = (one.occurrence + 1 for one in measured(journal, attempt, point) if one.repeat == repeat)
    return distributed.largest(max(before, default=0))


class Overheard:
    """A journal that lets a judge hear what goes into it."""

    def __init__(self, journal: Journaled) -> None:
        self._journal = journal
        self.judge: Judge | None = None

    def extend(self, records: Iterable[Sample | PointResult]) -> None:
        """Keeps records."""
        records = list(records)
        self._journal.extend(records)
        if self.judge is not None:
            self.judge.hear(records)
