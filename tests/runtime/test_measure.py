"""The recorder: what belongs to which block, what stays after a failure, and that measuring costs little."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator

import pytest

from runtime.contract.metrics import MEASURING, MEASURING_INSIDE
from runtime.contract.redaction import Redaction
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import CheckpointSpec, Point
from runtime.measure import BETWEEN, Collector, Operation, Probe, Recorder, Value

POINT = Point(3, "Bench", "abc", "x.Bench", "native", {}, None, CheckpointSpec())


class Kept(list[Sample | PointResult]):
    """A journal in memory."""

    def of(self, operation: str, metric: str = "time_s") -> list[Sample]:
        samples = [record for record in self if isinstance(record, Sample)]
        return [sample for sample in samples if (sample.operation, sample.metric) == (operation, metric)]


class Spy(Collector):
    """A collector that writes down when it is called."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def start(self, operation: Operation) -> Probe:
        self.calls.append(f"{self.name} starts")
        return self

    def stop(self) -> None:
        self.calls.append(f"{self.name} stops")

    def values(self) -> Iterator[Value]:
        yield Value(f"{self.name}_count", 1, "count")

    def end_repeat(self) -> Iterable[Value]:
        yield Value("late_count", 2, "count", Operation("save", 1))
        yield Value("late_count", 3, "count", BETWEEN)

    def close(self) -> None:
        self.calls.append(f"{self.name} closes")


def test_time_is_that_of_the_block() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r")
    with recorder.repeat(POINT, 0, False):
        before = time.perf_counter()
        with recorder.measure("sleep"):
            begin = time.perf_counter()
            time.sleep(0.2)
            slept = time.perf_counter() - begin  # longer than asked for on a busy machine
        around = time.perf_counter() - before
    assert slept <= kept.of("sleep")[0].value <= around


def test_sample_says_where_it_is_from() -> None:
    kept = Kept()
    before = time.time()
    recorder = Recorder(kept, run_id="r", attempt=2, worker=5)
    with recorder.repeat(POINT, 7, True), recorder.measure("save"):
        pass
    (sample,) = kept.of("save")
    assert before <= sample.started_at <= time.time()
    assert (sample.run_id, sample.attempt, sample.worker, sample.point) == ("r", 2, 5, 3)
    assert (sample.benchmark, sample.benchmark_key, sample.repeat, sample.warmup) == ("Bench", "abc", 7, True)
    assert (sample.unit, sample.occurrence) == ("s", 0)


def test_names_that_user_code_chose_are_redacted() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r", redact=Redaction(["hunter2"]))
    with recorder.repeat(POINT, 0, False):
        with recorder.measure("save hunter2"):
            pass
        recorder.value("save hunter2", "hunter2 \x1b[0mmetric", 1.0, "hunter2s")
    *_, told = kept.of("save (redacted)", "(redacted) metric")
    assert told.unit == "(redacted)s"
    assert "hunter2" not in str(list(kept))


def test_occurrences_count_within_a_repeat() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r")
    for repeat in range(2):
        with recorder.repeat(POINT, repeat, False):
            for _ in range(3):
                with recorder.measure("save"):
                    pass
    assert [(s.repeat, s.occurrence) for s in kept.of("save")] == [(r, o) for r in range(2) for o in range(3)]


def test_blocks_nest_under_distinct_names_only() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r")
    with recorder.repeat(POINT, 0, False), recorder.measure("outer"):
        with recorder.measure("inner"):
            pass
        with pytest.raises(RuntimeError, match="inside itself"), recorder.measure("outer"):
            pass
    (outer,), (inner,) = kept.of("outer"), kept.of("inner")
    assert outer.value >= inner.value


def test_collectors_start_before_the_timer_and_stop_after_it() -> None:
    calls: list[str] = []
    recorder = Recorder(Kept(), run_id="r", collectors=[Spy("far", calls), Spy("near", calls)])
    with recorder.repeat(POINT, 0, False), recorder.measure("save"):
        calls.append("block")
    recorder.close()
    assert calls == [
        "far starts",
        "near starts",
        "block",
        "near stops",
        "far stops",
        "far closes",
        "near closes",
    ]


def test_slow_collector_is_not_in_the_time() -> None:
    class Slow(Spy):
        def start(self, operation: Operation) -> Probe:
            time.sleep(0.2)
            return self

        def stop(self) -> None:
            time.sleep(0.2)

    kept = Kept()
    recorder = Recorder(kept, run_id="r", collectors=[Slow("slow", [])])
    with recorder.repeat(POINT, 0, False), recorder.measure("save"):
        pass
    assert kept.of("save")[0].value < 0.2


def test_what_measuring_takes_is_told_beside_the_block() -> None:
    """By what a collector sleeps: around its own block, and inside the block around that."""

    class Slow(Spy):
        def start(self, operation: Operation) -> Probe:
            time.sleep(0.05)
            return self

        def values(self) -> Iterator[Value]:
            time.sleep(0.05)
            return iter(())

    kept = Kept()
    recorder = Recorder(kept, run_id="r", collectors=[Slow("slow", [])])
    with recorder.repeat(POINT, 0, False):
        begin = time.perf_counter()
        with recorder.measure("outer"):
            for _ in range(2):
                with recorder.measure("inner"):
                    pass
        took = time.perf_counter() - begin
    inner = [sample.value for sample in kept.of("inner", MEASURING)]
    (outer,), (inside,) = kept.of("outer", MEASURING), kept.of("outer", MEASURING_INSIDE)
    assert len(inner) == 2 and min(inner) >= 0.1
    assert inside.value == pytest.approx(sum(inner))
    assert not kept.of("inner", MEASURING_INSIDE)
    assert 0.3 <= outer.value + kept.of("outer")[0].value <= took
    assert kept.of("outer")[0].value >= inside.value, "it is part of that time"


def test_late_values_carry_their_own_block_and_its_start() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r", collectors=[Spy("spy", [])])
    with recorder.repeat(POINT, 0, False):
        for _ in range(2):
            with recorder.measure("save"):
                pass
    (late,) = kept.of("save", "late_count")
    assert late.occurrence == 1
    assert late.started_at == kept.of("save")[1].started_at
    assert kept.of("between", "late_count")[0].value == 3


def test_failed_block_leaves_finished_ones_and_stops_its_probes() -> None:
    kept, calls, told = Kept(), list[str](), list[tuple[str, str]]()
    recorder = Recorder(
        kept,
        run_id="r",
        collectors=[Spy("spy", calls)],
        announce=lambda name, phase: told.append((name, phase)),
    )
    with pytest.raises(ValueError, match="boom"), recorder.repeat(POINT, 0, False):
        with recorder.measure("save"):
            pass
        with recorder.measure("restore"):
            raise ValueError("boom")
    assert len(kept.of("save")) == 1
    assert not kept.of("restore")
    assert calls.count("spy stops") == 2
    assert told == [("save", "start"), ("save", "end"), ("restore", "start"), ("restore", "end")]
    with recorder.repeat(POINT, 1, False), recorder.measure("restore"):
        pass
    assert len(kept.of("restore")) == 1


def test_payload_gives_throughput_and_memory_per_byte() -> None:
    class Memory(Spy):
        def values(self) -> Iterator[Value]:
            yield Value("peak_rss_over_start_bytes", 3000, "bytes")

    kept = Kept()
    recorder = Recorder(kept, run_id="r", collectors=[Memory("memory", [])])
    with recorder.repeat(POINT, 0, False), recorder.measure("save", payload_bytes=1000):
        time.sleep(0.01)
    assert kept.of("save", "rss_per_saved_byte")[0].value == 3
    assert kept.of("save", "bytes_per_s")[0].value == pytest.approx(1000 / kept.of("save")[0].value)
    assert kept.of("save", "payload_bytes")[0].value == 1000


def test_own_value_joins_the_latest_occurrence() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r")
    with recorder.repeat(POINT, 0, False):
        for _ in range(2):
            with recorder.measure("save"):
                pass
        recorder.value("save", "files_count", 4, "count")
        recorder.value("inventory", "files_count", 5, "count")
    (files,) = kept.of("save", "files_count")
    assert (files.value, files.occurrence, files.unit) == (4, 1, "count")
    assert kept.of("inventory", "files_count")[0].occurrence == 0


def test_measuring_outside_of_a_repeat_is_refused() -> None:
    recorder = Recorder(Kept(), run_id="r")
    with pytest.raises(RuntimeError, match="outside of a repeat"), recorder.measure("save"):
        pass
    with recorder.repeat(POINT, 0, False):
        inner = recorder.repeat(POINT, 1, False)
        with pytest.raises(RuntimeError, match="inside another"), inner:
            pass


def test_empty_block_measures_under_a_fifth_of_a_millisecond() -> None:
    kept = Kept()
    recorder = Recorder(kept, run_id="r")
    with recorder.repeat(POINT, 0, False):
        for _ in range(50):
            with recorder.measure("noop"):
                pass
    assert statistics.median(sample.value for sample in kept.of("noop")) < 0.0002


def test_a_repeat_that_another_process_began_goes_on_counting() -> None:
    kept: list[Sample | PointResult] = []
    recorder = Recorder(kept, run_id="r", collectors=[Late()])
    with recorder.repeat(POINT, 0, False, first_occurrence=7):
        for _ in range(2):
            with recorder.measure("save"):
                pass
        recorder.value("save", "mine", 1.0, "1")
        recorder.value("recovery", "mine", 1.0, "1")
    found = [
        (each.operation, each.occurrence)
        for each in kept
        if isinstance(each, Sample) and each.metric != MEASURING
    ]
    assert found == [("save", 7), ("save", 8), ("save", 8), ("recovery", 7), ("between", 7), ("save", 8)]


class Late(Collector):
    """Tells at the end of a repeat of what was between its blocks, and of one of them."""

    def start(self, operation: Operation) -> Probe:
        return Nothing()

    def end_repeat(self) -> list[Value]:
        return [Value("late", 1.0, "s", BETWEEN), Value("late", 1.0, "s", Operation("save", 8))]


class Nothing(Probe):
    def stop(self) -> None: ...

    def values(self) -> list[Value]:
        return []
