"""Takes the numbers: `with recorder.measure("save")` times a block and asks every collector what it saw."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from runtime.contract.metrics import MEASURING, MEASURING_INSIDE, THROUGHPUT, TIME
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import Point


@dataclass(frozen=True)
class Operation:
    """One passage through a measured block: its name, and how many of that name came before in the repeat."""

    name: str
    occurrence: int = 0


BETWEEN = Operation("between")
"""What happened inside a repeat but outside every measured block."""

SETUP = Operation("setup")
"""What happened before a repeat began, after the one before it: making data, compiling, cleaning up."""


@dataclass(frozen=True)
class Value:
    """What a collector saw; unit as in Sample. `operation` None: the block it was asked about."""

    metric: str
    value: float
    unit: str
    operation: Operation | None = None


class Probe(Protocol):
    """A collector's watch over one block."""

    def stop(self) -> None:
        """The block has ended: read what must be read at once. Called also when the block raised."""

    def values(self) -> Iterable[Value]:
        """What was seen; called after `stop` of every probe, only for a block that ended well."""


class Collector(Protocol):
    """A source of numbers. Those later in a recorder's list start later and stop earlier, near the block.

    To be inherited from: only `start` must be written.
    """

    def start(self, operation: Operation) -> Probe:
        """Begins to watch a block. Blocks nest: a probe may start while another is open."""

    def begin_repeat(self) -> None:
        """A repeat begins; called before any block of it."""
        return

    def end_repeat(self) -> Iterable[Value]:
        """A repeat has ended: returns what could not be told before, each value with its operation."""
        return ()

    def close(self) -> None:
        """Lets go of listeners."""
        return


class Journaled(Protocol):
    """Where samples go: results_io.Journal, or a list in tests."""

    def extend(self, records: Iterable[Sample | PointResult]) -> None:
        """Keeps records; see results_io.Journal."""


Phase = Literal["start", "end"]
Announce = Callable[[str, Phase], None]


@dataclass(frozen=True)
class _Repeat:
    """The repeat that is going on."""

    point: Point
    repeat: int
    warmup: bool
    started_at: float


@dataclass
class Block:
    """A block of code that is measured; `seconds` is 0 until it has ended without an error."""

    operation: Operation
    seconds: float = 0.0


class Recorder:
    """Measures blocks of one worker and writes every sample to the journal as soon as its block has ended.

    `announce(operation, phase)` is called before and after each block, outside its time: the worker tells its
    supervisor, which holds the deadline. To be used from one thread. Time is read closest to the block: no
    collector's work is inside it. An outer block's time does contain the bookkeeping of blocks nested in it.
    User code names operations, metrics and units, with whatever it likes: `redact` takes secrets out of them.
    """

    def __init__(
        self,
        journal: Journaled,
        *,
        run_id: str,
        attempt: int = 1,
        worker: int = 0,
        collectors: Sequence[Collector] = (),
        announce: Announce = lambda operation, phase: None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._journal = journal
        self._run_id, self._attempt, self._worker = run_id, attempt, worker
        self._collectors = tuple(collectors)
        # The same few names come again with each block.
        self._announce, self._redact = announce, functools.lru_cache(maxsize=4096)(redact)
        self._repeat: _Repeat | None = None
        self._occurrences: Counter[str] = Counter()
        self._first_occurrence = 0
        self._open: list[Operation] = []
        self._started: dict[Operation, float] = {}
        self._inside: dict[Operation, float] = {}

    @contextlib.contextmanager
    def repeat(self, point: Point, repeat: int, warmup: bool, first_occurrence: int = 0) -> Iterator[None]:
        """What is measured inside belongs to this repeat of the point; samples stay if the block raises.

        Occurrences of operations count from `first_occurrence`, where another process began the repeat.
        """
        if self._repeat is not None:
            raise RuntimeError(f"repeat {repeat} of {point.benchmark} begins inside another repeat")
        self._repeat = _Repeat(point, repeat, warmup, time.time())
        self._occurrences.clear()
        self._first_occurrence = first_occurrence
        self._started.clear()
        self._inside.clear()
        for collector in self._collectors:
            collector.begin_repeat()
        try:
            yield
        finally:
            late = [value for collector in self._collectors for value in collector.end_repeat()]
            self._write(late, SETUP)
            self._repeat = None

    def close(self) -> None:
        """Lets go of the collectors; the journal stays open."""
        for collector in self._collectors:
            collector.close()

    @contextlib.contextmanager
    def measure(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> Iterator[Block]:
        """Measures the block as one occurrence of `operation`; blocks of distinct names nest.

        With `payload_bytes`, what this worker saves or restores in the block, throughput and memory per byte
        are recorded too; no throughput when the block only begins what goes on `in_background`: tell that by
        `throughput` once it has ended. A block that raises leaves no samples of its own; those of blocks
        ended before stay.
        """
        self._expect_repeat(operation)
        if any(outer.name == operation for outer in self._open):
            raise RuntimeError(
                f"operation {operation!r} is measured inside itself; give the inner block another name"
            )
        current = Operation(operation, self._first_occurrence + self._occurrences[operation])
        self._occurrences[operation] += 1
        self._open.append(current)
        came = time.perf_counter()
        self._announce(operation, "start")
        self._started[current] = time.time()
        probes: list[Probe] = []
        block = Block(current)
        try:
            probes.extend(collector.start(current) for collector in self._collectors)
            begin = time.perf_counter()
            try:
                yield block
            finally:
                elapsed = time.perf_counter() - begin
                for probe in reversed(probes):
                    probe.stop()
            block.seconds = elapsed
            values = [Value(TIME, elapsed, "s")]
            values += [value for probe in probes for value in probe.values()]
            self._write(values + list(_ratios(values, payload_bytes)), current)
            if payload_bytes and not in_background:
                self.throughput(payload_bytes, block)
            self._tell_cost(current, time.perf_counter() - came - elapsed)
        finally:
            self._open.pop()
            self._announce(operation, "end")

    def _tell_cost(self, operation: Operation, seconds: float) -> None:
        """Records what measuring a block took; blocks around it have that in their time."""
        inside = self._inside.pop(operation, 0.0)
        values = [Value(MEASURING, seconds, "s")]
        if inside:
            values.append(Value(MEASURING_INSIDE, inside, "s"))
        self._write(values, operation)
        for outer in self._open[:-1]:
            self._inside[outer] = self._inside.get(outer, 0.0) + seconds

    def took(self, operation: str, seconds: float) -> None:
        """Records one more occurrence of an operation of which only its time is known: no collector was at it."""
        self._expect_repeat(operation)
        one = Operation(operation, self._first_occurrence + self._occurrences[operation])
        self._occurrences[operation] += 1
        self._started[one] = time.time() - seconds
        self._write([Value(TIME, seconds, "s")], one)

    def throughput(self, payload_bytes: int, *blocks: Block) -> None:
        """Records how fast bytes moved in all of these blocks together, as a value of the first."""
        self._expect_repeat(blocks[0].operation.name)
        seconds = sum(block.seconds for block in blocks)
        if seconds > 0:
            self._write([Value(THROUGHPUT, payload_bytes / seconds, "bytes/s")], blocks[0].operation)

    def value(self, operation: str, metric: str, value: float, unit: str) -> None:
        """Records a number that the benchmark found itself.

        It belongs to the open or else the latest occurrence of `operation` in this repeat.
        """
        self._expect_repeat(operation)
        occurrence = self._first_occurrence + max(0, self._occurrences[operation] - 1)
        self._write([Value(metric, value, unit)], Operation(operation, occurrence))

    def _expect_repeat(self, operation: str) -> None:
        if self._repeat is None:
            raise RuntimeError(f"operation {operation!r} is measured outside of a repeat")

    def _write(self, values: Iterable[Value], operation: Operation) -> None:
        repeat = self._repeat
        assert repeat is not None
        samples = []
        for value in values:
            of = value.operation or operation
            # What is no block has no number of its own: another process may have told of it, too.
            later = self._first_occurrence if of in (BETWEEN, SETUP) else 0
            samples.append(
                Sample(
                    run_id=self._run_id,
                    attempt=self._attempt,
                    point=repeat.point.index,
                    benchmark=repeat.point.benchmark,
                    benchmark_key=repeat.point.key,
                    repeat=repeat.repeat,
                    occurrence=of.occurrence + later,
                    worker=self._worker,
                    operation=self._redact(of.name),
                    metric=self._redact(value.metric),
                    value=float(value.value),
                    unit=self._redact(value.unit),
                    warmup=repeat.warmup,
                    started_at=self._started.get(of, repeat.started_at),
                )
            )
        if samples:
            self._journal.extend(samples)


def _ratios(values: Sequence[Value], payload_bytes: int | None) -> Iterator[Value]:
    """What follows from a block's values once the number of bytes it moved is known."""
    if not payload_bytes:
        return
    seen = {value.metric: value.value for value in values if value.operation is None}
    yield Value("payload_bytes", payload_bytes, "bytes")
    for prefix in ("", "sampled_"):
        grown = seen.get(f"{prefix}peak_rss_over_start_bytes")
        if grown is not None:
            yield Value(f"{prefix}rss_per_saved_byte", grown / payload_bytes, "1")
