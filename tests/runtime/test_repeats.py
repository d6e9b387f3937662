"""Another repeat, or enough: by what was measured, by time, and the same on all workers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from runtime import distributed
from runtime.contract.repeats import Adaptive
from runtime.contract.results import Sample
from runtime.contract.suite import CheckpointSpec, Point
from runtime.repeats import Judge, Overheard

POINT = Point(0, "b", "key", "x.B", "native", {}, None, CheckpointSpec())
ASKED = Adaptive(6, 9, 0.02, 60.0)


def samples(
    *values: float, operation: str = "save", warmup: bool = False, at: float = 0.0, metric: str = "time_s"
) -> list[Sample]:
    return [
        Sample("r", 1, 0, "b", "key", n, 0, 0, operation, metric, value, "s", warmup, at)
        for n, value in enumerate(values)
    ]


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What the worst of the other workers says."""
    worst = [0]
    monkeypatch.setattr(distributed, "largest", lambda mine: max(mine, worst[0]))
    yield worst


QUIET, NOISY = [1.0] * 6, [1.0, 1.0, 1.1, 1.2, 1.3, 1.4]


def test_a_quiet_point_is_known_after_the_fewest_repeats(others: list[int]) -> None:
    judge = Judge(POINT, ASKED, clock=lambda: 0.0)
    judge.hear(samples(9.0, warmup=True) + samples(9.0, metric="cpu_s"))
    for done, value in enumerate(QUIET, 1):
        judge.hear(samples(value))
        assert bool(judge.why_enough(done)) == (done == 6)
    assert judge.why_enough(6) == "every median is known within ± 2 % after 6 repeats"


def test_a_noisy_one_goes_on_to_the_most(others: list[int]) -> None:
    judge = Judge(POINT, ASKED, clock=lambda: 0.0)
    judge.hear(samples(*QUIET) + samples(*NOISY, operation="restore"))
    assert judge.why_enough(6) == judge.why_enough(8) == ""
    assert judge.why_enough(9) == "9 repeats are the most that it may do; restore: ± 17 %"


def test_what_is_no_headline_may_be_noisy(others: list[int]) -> None:
    judge = Judge(POINT, ASKED, clock=lambda: 0.0)
    judge.hear(samples(*QUIET) + samples(*NOISY, operation="metadata_validation"))
    assert judge.why_enough(6)


def test_time_runs_out(others: list[int]) -> None:
    now = [100.0]
    judge = Judge(POINT, ASKED, clock=lambda: now[0])
    judge.hear(samples(*NOISY))
    now[0] = 159.0
    assert judge.why_enough(6) == ""
    now[0] = 160.0
    assert judge.why_enough(5) == "", "the fewest are done whatever time it is"
    assert judge.why_enough(6) == "60 s were over after 6 repeats; save: ± 17 %"


def test_the_worst_worker_counts(others: list[int]) -> None:
    judge = Judge(POINT, ASKED, clock=lambda: 0.0)
    judge.hear(samples(*QUIET))
    others[0] = 1
    assert judge.why_enough(6) == ""
    others[0] = 2
    assert judge.why_enough(6) == "60 s were over after 6 repeats; save: ± 0 %"


def test_what_was_measured_before_a_restart_counts_and_so_does_its_time(others: list[int]) -> None:
    before = samples(*NOISY[:5], at=time.time() - 59)
    judge = Judge(POINT, ASKED, before, clock=(clock := iter([0.0, 0.0, 1.5])).__next__)
    judge.hear(samples(NOISY[5]))
    assert judge.why_enough(6) == ""
    assert "60 s were over" in judge.why_enough(6)
    assert next(clock, None) is None


def test_without_a_rule_nobody_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "largest", None)  # nobody asks the others either
    judge = Judge(POINT, None)
    judge.hear(samples(*QUIET))
    assert judge.why_enough(100) == ""


def test_a_judge_hears_what_is_kept() -> None:
    kept: list[object] = []

    class Kept:
        def extend(self, records: object) -> None:
            kept.extend(records)  # type: ignore[call-overload]

    overheard = Overheard(Kept())  # type: ignore[arg-type]
    overheard.extend(iter(samples(1.0)))
    overheard.judge = Judge(POINT, Adaptive(1, 1), clock=lambda: 0.0)
    overheard.extend(iter(samples(1.0)))
    assert len(kept) == 2
    assert "1 repeats are the most" in overheard.judge.why_enough(1)
