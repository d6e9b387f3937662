"""Verdicts follow the written rule: literal histories in, one verdict and its reason out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from runtime.contract.errors import ExitCode
from runtime.contract.results import PointStatus
from tasks.history import changes
from tasks.history.columns import standing
from tasks.history.comparison import PastRun, comparable, judge, past_run
from tasks.history.dataset.rows import Belonging, rows_of
from tasks.history.measurement import Measurement
from tasks.history.results import AttemptEnd, PointOutcome, Results
from tasks.history.verdict import Verdict, overall, verdicts_from_json

KEY = ("key-tiny", "save", "time_s")
SAME = {"platform": "cpu", "workers": "2"}
STEADY = [[1.00, 1.01, 0.99], [1.02, 1.0, 1.01], [0.99, 0.97, 1.0], [1.03, 1.04, 1.02]] * 2


def measured(values: Sequence[float], metric: str = "time_s", unit: str = "s", point: int = 0) -> Measurement:
    return Measurement(
        point=point,
        benchmark="tiny",
        benchmark_key="key-tiny",
        operation="save",
        metric=metric,
        unit=unit,
        repeats=np.arange(len(values)),
        warmup=np.zeros(len(values), dtype=np.bool_),
        workers=np.asarray([0]),
        values=np.asarray(values, dtype=np.float64).reshape(-1, 1),
    )


def finished(
    run_id: str = "now",
    values: Sequence[float] = (1.0, 1.01, 0.99),
    *,
    status: PointStatus = "passed",
    started_at: float | None = 1000.0,
    end: str = "succeeded",
    fingerprint: dict[str, str] = SAME,
) -> Results:
    point = PointOutcome(
        0, "tiny", "key-tiny", "G", "native", status, "boom" if status == "failed" else "", attempt=1
    )
    return Results(
        run_id=run_id,
        suite="s",
        target="local",
        workers=1,
        points=[point],
        attempts=[AttemptEnd(1, end)],
        fingerprint=fingerprint,
        started_at=started_at,
        measurements=[measured(values)],
    )


def history(runs: Sequence[Sequence[float]]) -> list[PastRun]:
    return [PastRun(f"past-{n}", {KEY: run}) for n, run in enumerate(runs)]


def test_no_history_is_no_baseline() -> None:
    verdicts = judge(finished(), [])
    assert (verdicts.overall, verdicts.reason) == (Verdict.NO_BASELINE, "no earlier run to compare with")
    assert verdicts.series[0].effect is None


@pytest.mark.parametrize("runs", [1, 2, 7])
def test_a_short_history_is_inconclusive_with_an_effect(runs: int) -> None:
    verdicts = judge(finished(values=[2.0, 2.02, 1.98]), history(STEADY[:runs]))
    (series,) = verdicts.series
    assert (verdicts.overall, series.verdict) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert series.effect is not None
    assert series.effect.effect == pytest.approx(1.0, abs=0.02)
    assert f"{runs} earlier run" in series.reason


def test_within_the_noise_of_enough_runs_is_a_pass() -> None:
    verdicts = judge(finished(), history(STEADY))
    (series,) = verdicts.series
    assert (verdicts.overall, series.verdict) == (Verdict.PASS, Verdict.PASS)
    assert series.effect is not None and series.effect.noise_floor is not None
    assert 0.03 < series.effect.noise_floor < 0.15


def test_what_is_allowed_to_a_history_that_never_moved_is_not_told_as_its_own() -> None:
    verdicts = judge(finished(values=[1.0] * 3), history([[1.0] * 3] * 8))
    assert verdicts.series[0].reason == "within the ± 0.1 % allowed for clocks and rounding"


def test_twice_as_slow_is_not_a_pass_and_not_yet_red() -> None:
    assert judge(finished(values=[2.0, 2.02, 1.98]), history(STEADY)).overall is Verdict.INCONCLUSIVE


def test_a_scattered_run_is_not_a_pass() -> None:
    verdicts = judge(finished(values=[0.7, 1.0, 1.3]), history(STEADY))
    assert verdicts.overall is Verdict.INCONCLUSIVE
    assert "beyond" in verdicts.series[0].reason


def test_a_history_too_noisy_to_judge_says_so() -> None:
    noisy = [[level, level * 1.01] for level in (0.5, 2.0, 1.0, 1.5, 0.7, 1.2, 0.9, 1.8)]
    verdicts = judge(finished(), history(noisy))
    assert verdicts.overall is Verdict.INCONCLUSIVE
    assert "too noisy" in verdicts.series[0].reason


NAN, INF = float("nan"), float("inf")
NO_RATIO = "some values are zero, negative or infinite: there is no ratio to compare"
OUTLIER = [5.0, 5.1, 4.9]


@pytest.mark.parametrize(
    ("values", "runs", "verdict", "reason"),
    [
        ([NAN] * 3, STEADY, Verdict.NOT_RUN, "no operation of it was timed"),
        ([NAN, 1.0, 1.01, 0.99], STEADY, Verdict.PASS, "within the"),
        ([0.0, 1.0, 1.0], STEADY, Verdict.INCONCLUSIVE, NO_RATIO),
        ([-1.0, 1.0, 1.0], STEADY, Verdict.INCONCLUSIVE, NO_RATIO),
        ([INF, 1.0, 1.0], STEADY, Verdict.INCONCLUSIVE, NO_RATIO),
        ([2.0], STEADY, Verdict.INCONCLUSIVE, "one repeat has no interval"),
        ([], STEADY, Verdict.NOT_RUN, "no operation of it was timed"),
        ([1.0] * 3, [[1.0] * 3] * 8, Verdict.PASS, "within the"),
        ([1.2] * 3, [[1.0] * 3] * 8, Verdict.INCONCLUSIVE, "the interval reaches beyond"),
        ([1.0] * 3, [*STEADY, [0.0] * 3, [NAN, 1.0], [INF]], Verdict.PASS, "within the"),
        ([1.0] * 3, [[0.0] * 3, [NAN, 1.0]], Verdict.NO_BASELINE, "no earlier run to compare with"),
        ([1.0, 1.01, 0.99], [OUTLIER, *STEADY], Verdict.INCONCLUSIVE, "too noisy to judge"),
        ([2.0, 2.01, 1.99], [OUTLIER, *STEADY], Verdict.INCONCLUSIVE, "too noisy to judge"),
    ],
)
def test_values_that_nobody_wants_make_nothing_green_or_red(
    values: list[float], runs: list[list[float]], verdict: Verdict, reason: str
) -> None:
    (series,) = judge(finished(values=values), history(runs)).series
    assert series.verdict is verdict and reason in series.reason


def test_a_newest_run_that_stands_out_does_not_shift_the_baseline() -> None:
    (series,) = judge(finished(), history([OUTLIER, *STEADY])).series
    assert series.effect is not None and abs(series.effect.effect) < 0.03
    assert series.previous_median == 5.0, "and it is told as what it was"


def test_runs_in_another_unit_are_no_baseline() -> None:
    def in_unit(run_id: str, unit: str, value: float) -> Results:
        return dataclasses.replace(finished(run_id), measurements=[measured([value] * 3, unit=unit)])

    past = [past_run(in_unit(f"past-{n}", "bytes", 1e9)) for n in range(8)]
    verdicts = judge(in_unit("now", "s", 1.0), past)
    assert (verdicts.overall, verdicts.series[0].effect) == (Verdict.NO_BASELINE, None)
    assert judge(in_unit("now", "bytes", 1e9), past).overall is Verdict.PASS


def test_what_began_after_a_run_that_was_resumed_later_is_no_earlier_run() -> None:
    resumed = dataclasses.replace(finished(started_at=3000.0), asked_at=1000.0)
    before = dataclasses.replace(finished("before", started_at=950.0), asked_at=900.0)
    between = dataclasses.replace(finished("between", started_at=2000.0), asked_at=1990.0)
    fit, reasons = comparable(resumed, [before, between])
    assert ([past.run_id for past in fit], reasons) == (["before"], [])


def test_what_failed_is_not_run_whatever_its_times() -> None:
    verdicts = judge(finished(status="failed"), history(STEADY))
    assert (verdicts.overall, verdicts.series[0].reason) == (Verdict.NOT_RUN, "boom")
    assert verdicts.reason == "the benchmark failed"


def test_a_passed_point_without_times_is_not_green() -> None:
    silent = dataclasses.replace(finished(), measurements=[])
    assert judge(silent, history(STEADY)).overall is Verdict.NOT_RUN


def test_a_suite_without_points_is_not_green() -> None:
    empty = dataclasses.replace(finished(), points=[], measurements=[])
    assert judge(empty, []).overall is Verdict.NOT_RUN


def test_memory_below_a_mebibyte_is_nothing() -> None:
    def with_memory(run_id: str, value: float) -> Results:
        memory = measured([value] * 3, "peak_rss_over_start_bytes", "bytes")
        return dataclasses.replace(finished(run_id), measurements=[memory])

    baseline = [past_run(with_memory(f"past-{n}", 4096.0 * n)) for n in range(8)]
    verdicts = judge(with_memory("now", 0.0), baseline)
    assert verdicts.overall is Verdict.PASS
    (series,) = verdicts.series
    assert series.effect is not None
    assert (series.effect.current_median, series.previous_median) == (0.0, 0.0), "told as it was measured"
    assert series.effect.baseline_median == 3.5 * 4096
    assert changes.change(series.effect) == "both below 1.00 MiB"
    assert changes.interval(series.effect) == ""
    (grown,) = judge(with_memory("now", 2.0**22), baseline).series
    assert grown.effect is not None
    assert (grown.effect.current_median, grown.effect.effect) == (2.0**22, pytest.approx(3.0)), (
        "compared as from 1 MiB"
    )
    assert changes.counted_from(grown.effect) == "less than 1.00 MiB counts as that"
    (more,) = judge(with_memory("now", 2.0**22), [past_run(with_memory("past", 2.0**21))]).series
    assert more.effect is not None and changes.counted_from(more.effect) == ""


def test_only_comparable_earlier_runs_are_a_baseline() -> None:
    now = finished(started_at=100.0)
    good = finished("good", started_at=50.0)
    later = finished("later", started_at=150.0)
    failed = finished("failed", started_at=60.0, status="failed")
    preempted = finished("preempted", started_at=70.0, end="preempted")
    elsewhere = finished("elsewhere", started_at=80.0, fingerprint={"platform": "gpu", "workers": "2"})
    fit, reasons = comparable(now, [good, later, failed, preempted, elsewhere, now])
    assert [past.run_id for past in fit] == ["good"]
    assert reasons == [
        "2 earlier runs: no benchmark passed in an attempt that was not preempted",
        "1 earlier run: platform gpu instead of cpu",
    ]


def test_the_latest_runs_come_first() -> None:
    fit, _ = comparable(
        finished(started_at=100.0), [finished(f"r{n}", started_at=float(n)) for n in range(40)]
    )
    assert [past.run_id for past in fit] == [f"r{n}" for n in range(39, 9, -1)]


def test_preempted_timings_never_enter() -> None:
    assert past_run(finished(end="preempted")).series == {}
    assert past_run(finished()).series == {KEY: [1.0, 1.01, 0.99]}


def test_the_worst_verdict_is_the_runs() -> None:
    assert overall([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert overall([Verdict.PASS, Verdict.NOT_RUN, Verdict.REGRESSED]) is Verdict.NOT_RUN
    assert overall([Verdict.PASS, Verdict.IMPROVED]) is Verdict.IMPROVED
    assert overall([]) is Verdict.NOT_RUN


def test_verdicts_are_read_as_they_were_written() -> None:
    verdicts = judge(finished(), history(STEADY), ["1 earlier run: elsewhere"])
    assert verdicts_from_json(verdicts.to_json(), "verdicts.json", "judge again") == verdicts


def test_unchanged_code_mostly_passes() -> None:
    random = np.random.default_rng(5)
    passes = 0
    for _ in range(200):
        levels = np.exp(random.normal(0, 0.03, size=9))
        runs = [(level * np.exp(random.normal(0, 0.005, size=5))).tolist() for level in levels]
        passes += judge(finished(values=runs[8]), history(runs[:8])).overall is Verdict.PASS
    assert passes / 200 > 0.8


REFERENCE = "runtime.benchmarks.reference.Reference"


def with_reference(status: PointStatus = "passed") -> Results:
    """A run of which the second point made what the first one read, and was timed while warming up, if ever."""
    whole = finished()
    made = dataclasses.replace(whole.points[0], point=1, generator=REFERENCE, status=status, cause="boom")
    return dataclasses.replace(whole, points=[*whole.points, made])


def test_what_prepares_others_is_not_judged() -> None:
    verdicts = judge(with_reference(), history(STEADY))
    assert (verdicts.overall, [one.point for one in verdicts.series]) == (Verdict.PASS, [0])
    assert [standing(point, verdicts) for point in with_reference().points] == ["PASS", "PREPARED"]
    assert [row["status"] for row in rows_of(with_reference(), Belonging("released"))] == ["measured"]


def test_a_run_that_only_prepares_others_is_no_run_of_which_nothing_is_known() -> None:
    whole = with_reference()
    alone = dataclasses.replace(whole, points=[point for point in whole.points if point.prepared])
    verdicts = judge(alone, [])
    assert (verdicts.of_run(alone), verdicts.reason) == ("PREPARED", "it made what others read")
    assert verdicts.code_of_run(alone) is ExitCode.DONE
    assert verdicts.code_of_run(whole) is ExitCode.INFRASTRUCTURE  # that nobody timed what it was for


def test_what_was_to_prepare_others_and_failed_is_not_run() -> None:
    assert judge(with_reference("failed"), history(STEADY)).overall is Verdict.NOT_RUN
    rows = rows_of(with_reference("failed"), Belonging("released"))
    assert [row["status"] for row in rows] == ["measured", "failed"]
