"""How well changes are found in made series, and how rarely where nothing changed, beside the best test there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tests.bench.bars import Bar
from tests.bench.detection_data import KINDS, SPIKES, Drawn, Noise, mixed, quiet, stepped
from tests.bench.detection_play import Alarms, ideal, ours, played

NOISES = (0.005, 0.01, 0.02, 0.04)
"""Between runs, as standard deviations of logarithms; within a run it is 2 % of five repeats."""

HIT_NIGHTS = 2
SERIES, NIGHTS = 100, 30

STEPS = ((0.005, 0.05, 20), (0.01, 0.05, 20), (0.02, 0.05, 20), (0.04, 0.05, 300), (0.04, 0.1, 20))
"""Noise between runs, size of a step, plays. A step about as large as the noise is found by chance at times, by any
test: only many plays tell which one finds more."""


@dataclass(frozen=True)
class Score:
    """What alarms were worth: changes found in time, missed or found late, and alarms without a change."""

    hits: int
    missed: int
    false: int

    @property
    def f1(self) -> float:
        return 2 * self.hits / max(1, 2 * self.hits + self.missed + self.false)


def measure() -> list[Bar]:
    """Returns all bars: false alarms, power, power beside the ideal test's, what of it is left in worse weather."""
    return [*_false_alarms(), *_power(), *_weather()]


def score(drawn: Drawn, alarms: Alarms) -> Score:
    """Returns what alarms were worth. One that comes late is no hit, and no false alarm either."""
    hits = missed = false = 0
    for onset, nights in zip(drawn.onset, alarms, strict=True):
        if onset < 0:
            false += len(nights)
            continue
        false += sum(night < onset for night in nights)
        hit = any(onset <= night < onset + HIT_NIGHTS for night in nights)
        hits, missed = hits + hit, missed + (not hit)
    return Score(hits, missed, false)


def _false_alarms() -> Iterator[Bar]:
    for history, between, spikes in itertools.product((10, 60), NOISES, (0.0, SPIKES)):
        plays = [
            quiet(Noise(between), history=history, nights=NIGHTS, series=SERIES, seed=seed, spikes=spikes)
            for seed in range(4)
        ]
        count = [_false(play) for play in plays]
        words = "quiet but for spikes" if spikes else "quiet"
        what = f"false alarms, {words}, {between:.1%}, after {history} nights"
        yield bar(what, sum(count) / len(count), 1.0, len(count), at_most=1.0)


def _false(drawn: Drawn) -> int:
    """Returns the alarms of quiet series, and of their machine."""
    alarms, of_machine = played(drawn)
    return score(drawn, alarms).false + len(of_machine)


def _power() -> Iterator[Bar]:
    for between, size, times in STEPS:
        noise = Noise(between)
        hits = []
        for seed in range(times):
            play = stepped(noise, size, history=60, series=SERIES, changed=10, seed=seed)
            hits.append((score(play, ours(play)).hits, score(play, ideal(play, noise)).hits))
        found, best = np.array(hits).T
        share, ideal_share = found.sum() / (10 * times), best.sum() / (10 * times)
        what = f"{size:.0%} steps found within {HIT_NIGHTS} nights, {between:.1%}"
        if between <= 0.01:
            yield bar(what, share, 1.0, times, at_least=0.95)
        yield replace(
            bar(f"{what}, ours / ideal test's", share, ideal_share, times, at_least=0.9),
            low=_quantile(found, best, 0.025),
            high=_quantile(found, best, 0.975),
        )


def _quantile(found: NDArray[np.int64], best: NDArray[np.int64], at: float) -> float:
    """Returns a quantile of the ratio of sums, the plays being drawn anew a thousand times."""
    drawn = np.random.default_rng(0).integers(len(found), size=(1000, len(found)))
    return float(np.quantile(found[drawn].sum(axis=1) / np.maximum(best[drawn].sum(axis=1), 1), at))


def _weather() -> Iterator[Bar]:
    """Yields F1 of each kind beside that of plain steps in the same noise."""
    for between in NOISES[:3]:
        found = {kind: score(play, ours(play)) for kind, play in plays_of(between).items()}
        for kind, one in found.items():
            what = f"{kind}, {between:.1%}: F1, of plain steps' (false alarms {one.false})"
            yield bar(what, one.f1, found["step"].f1, 1)


def plays_of(between: float) -> dict[str, Drawn]:
    """Returns series of each kind, in which every fifth gets slower."""
    noise = Noise(between)
    return {kind: mixed(kind, noise, history=40, nights=NIGHTS, series=SERIES, seed=7) for kind in KINDS}


def sum_of(scores: Iterable[Score]) -> Score:
    """Returns what several plays were worth together."""
    counted = list(scores)
    return Score(
        sum(one.hits for one in counted),
        sum(one.missed for one in counted),
        sum(one.false for one in counted),
    )


def bar(
    what: str, value: float, of: float, rounds: int, *, at_least: float = 0.0, at_most: float = math.inf
) -> Bar:
    ratio = value / of if of else (1.0 if value == 0 else math.inf)
    return Bar(what, value, of, "", rounds, ratio, ratio, ratio, at_least, at_most)
