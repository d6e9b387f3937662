"""How well changes are found in made series beside Otava and asv, on the same data in the same call."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from tests.bench.bars import Bar
from tests.bench.bench_detection import NIGHTS, NOISES, SERIES, bar, plays_of, score, sum_of
from tests.bench.detection_data import KINDS, Noise, quiet
from tests.bench.detection_play import ours, peer


def measure() -> list[Bar]:
    """Returns F1 beside peers', and Otava's false alarms of series that are quiet."""
    # Peers are processes of their own, which take longer than ours: one of them computes while ours does.
    with ThreadPoolExecutor(max_workers=1) as beside:
        return [*_f1(beside), *_quiet(beside)]


def _f1(beside: Executor) -> Iterator[Bar]:
    for between in NOISES[:3]:
        plays, names = plays_of(between), ("otava", "asv")
        others = {(name, kind): beside.submit(peer, name, plays[kind]) for name in names for kind in KINDS}
        mine = {kind: score(play, ours(play)) for kind, play in plays.items()}
        for name in names:
            other = {kind: score(play, others[name, kind].result()) for kind, play in plays.items()}
            for kind in KINDS:
                what = f"{kind}, {between:.1%}: F1, ours / {name}'s"
                false = f"(false alarms {mine[kind].false}, {other[kind].false})"
                yield bar(f"{what} {false}", mine[kind].f1, other[kind].f1, 1)
            all_of = sum_of(mine.values()), sum_of(other.values())
            false = f"(false alarms {all_of[0].false}, {all_of[1].false})"
            what = f"all kinds, {between:.1%}: F1, ours / {name}'s {false}"
            yield bar(what, all_of[0].f1, all_of[1].f1, len(KINDS), at_least=1.0)


def _quiet(beside: Executor) -> Iterator[Bar]:
    for between in NOISES:
        play = quiet(Noise(between), history=10, nights=NIGHTS, series=SERIES, seed=0)
        other = beside.submit(peer, "otava", play)
        mine = score(play, ours(play)).false
        yield bar(
            f"false alarms, quiet, {between:.1%}, ours / otava's", mine, score(play, other.result()).false, 1
        )
