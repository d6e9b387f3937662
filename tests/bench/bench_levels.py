"""How well changes are found in the first nights of a new level, and how rarely where nothing changed in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.bench.bars import Bar
from tests.bench.bench_detection import NIGHTS, SERIES, bar, score
from tests.bench.detection_data import SPIKES, Drawn, Noise, levelled
from tests.bench.detection_play import Alarms, played

HISTORY = 40
ROUNDS = 3
MOVED = 0.15
"""By how much every fifth series gets better, or worse and is accepted, in the first night that is judged."""

STEP = 0.1
SOON = {"accepted": (1, 6, 12), "better": (6, 12)}
"""Nights after which they get slower again. Better is a new level after five."""


def measure() -> list[Bar]:
    """Returns all bars: false alarms after a level moved, and what is found of steps soon after."""
    return [*_false_alarms(), *_found()]


def _false_alarms() -> Iterator[Bar]:
    for how, between in itertools.product(SOON, (0.01, 0.04)):
        count = []
        for seed in range(ROUNDS):
            play = _drawn(how, between, NIGHTS, seed, spikes=SPIKES)
            count.append(score(play, _alarms(how, play)).false)
        what = f"false alarms, quiet but for spikes, {between:.1%}, after a level that was {how}"
        yield bar(what, sum(count) / len(count), 1.0, len(count), at_most=1.0)


def _found() -> Iterator[Bar]:
    for how, between in itertools.product(SOON, (0.01, 0.02)):
        for after in SOON[how]:
            scores = []
            for seed in range(ROUNDS):
                play = _drawn(how, between, after + 2, seed, after=after)
                scores.append(score(play, _alarms(how, play)))
            hits, all_of = (
                sum(one.hits for one in scores),
                sum(one.hits + one.missed for one in scores),
            )
            what = f"{STEP:.0%} steps found {after} nights after a level that was {how}, {between:.1%}"
            yield bar(what, hits / all_of, 1.0, len(scores), at_least=0.95 if between <= 0.01 else 0.0)


def _drawn(
    how: str, between: float, nights: int, seed: int, *, spikes: float = 0.0, after: int = -1
) -> Drawn:
    size = -MOVED if how == "better" else MOVED
    return levelled(
        Noise(between),
        size,
        STEP,
        after,
        history=HISTORY,
        nights=nights,
        series=SERIES,
        seed=seed,
        spikes=spikes,
    )


def _alarms(how: str, play: Drawn) -> Alarms:
    return played(play, accepted=range(0, SERIES, 5) if how == "accepted" else ())[0]
