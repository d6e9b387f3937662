"""The seam of a log read in pieces: wherever it is cut, each line comes once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tasks.cloud.kubernetes_seam import Seam

BEGIN = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)


def stamped(micros: int, text: str, zone: str = "Z") -> bytes:
    at = BEGIN + timedelta(microseconds=micros)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}000{zone} {text}".encode()


def served(log: list[bytes], asked: dict[str, str]) -> list[bytes]:
    """Returns what a server gives: lines from a second on, in the order of the log."""
    since = asked.get("sinceTime", "").encode()[:19]
    return [line for line in log if line[:19] >= since]


# Steps of time from line to line: mostly forward, some of none and a little back, as two streams in one log have.
STEPS = st.lists(st.sampled_from([0, 0, 1, -3, 40, 90_000, 400_000, 1_500_000]), max_size=40)
TEXTS = st.sampled_from(["a", "a", "b", ""])


@given(steps=STEPS, cuts=st.lists(st.integers(0, 60), max_size=6), data=st.data())
def test_wherever_it_is_cut_each_line_comes_once(
    steps: list[int], cuts: list[int], data: st.DataObject
) -> None:
    at, log = 0, []
    for step in steps:
        at = max(0, at + step)
        log.append(stamped(at, data.draw(TEXTS)))
    seam, got = Seam(), []
    for cut in [*cuts, len(log)]:
        got += seam.fresh(served(log, seam.resume())[:cut])
    got += seam.fresh(served(log, seam.resume()))
    assert got == log
    assert seam.count == len(log)


@given(
    before=st.integers(0, 30), after=st.integers(1, 30), back_s=st.integers(1, 100), cut=st.integers(1, 60)
)
def test_a_clock_that_was_set_back_makes_no_difference(
    before: int, after: int, back_s: int, cut: int
) -> None:
    log = [stamped(120_000_000 + one * 300_000, str(one)) for one in range(before)]
    start = 120_000_000 + before * 300_000 - back_s * 1_000_000
    log += [stamped(start + one * 300_000, f"later {one}") for one in range(after)]
    seam = Seam()
    got = seam.fresh(served(log, seam.resume())[: before + cut])
    got += seam.fresh(served(log, seam.resume()))
    assert got == log


def test_only_the_last_seconds_are_asked_for_again() -> None:
    seam = Seam()
    assert seam.resume() == {}
    seam.fresh(stamped(second * 1_000_000, "x", "+02:00") for second in range(9))
    assert seam.resume() == {"sinceTime": "2026-01-31T23:59:55+02:00"}


def test_lines_that_a_rotation_took_away_are_not_waited_for() -> None:
    seam = Seam()
    seam.fresh([stamped(one, str(one)) for one in range(5)])
    seam.resume()
    assert seam.fresh([stamped(4, "4"), stamped(5, "5")]) == [stamped(5, "5")]


def test_what_a_node_says_instead_of_a_line_is_none() -> None:
    seam = Seam()
    said = b"failed to create fsnotify watcher: too many open files"
    assert seam.fresh([stamped(1, "a"), said, b""]) == [stamped(1, "a")]
    assert seam.words == said.decode()
