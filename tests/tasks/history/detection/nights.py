"""Makes series of nights by rule or from a seed, for the tests of detection and for its bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tasks.history.detection.series import Night, Run, Series, run_of


def night(name: str, *percents: float) -> Night:
    """Returns a night whose runs, of repeats that do not scatter, are so many percent off one second."""
    return Night(name, tuple(Run(float(np.log1p(percent / 100)), 0.0) for percent in percents))


def nights(*percents: float, begin: int = 0) -> tuple[Night, ...]:
    """Returns nights of one run each, named by their number."""
    return tuple(night(str(begin + n), percent) for n, percent in enumerate(percents))


QUIET = nights(*(0.3, -0.8, 1.1, -0.2, 0.6, -1.2, 0.1, 0.9, -0.5, -0.9, 0.4, 1.2, -0.1, -0.6, 0.8, -0.3) * 2)
"""32 nights that scatter by some 0.75 %."""


def with_nights(*more: Night, level: int | None = None) -> Series:
    """Returns the quiet nights with others after them."""
    return Series((*QUIET, *more), level)


def drawn(
    seed: int, count: int, between: float, within: float = 0.02, repeats: int = 5, mean: float = 0.0
) -> tuple[Night, ...]:
    """Returns nights of one run each, drawn at random: both kinds of noise are standard deviations of logarithms."""
    draw = runs_from(np.random.default_rng(seed), between, within, repeats)
    return tuple(Night(str(n), (draw(mean),)) for n in range(count))


def runs_from(
    generator: np.random.Generator, between: float, within: float, repeats: int
) -> Callable[[float], Run]:
    """Returns what draws a run around a mean, a logarithm."""

    def draw(mean: float) -> Run:
        centre = mean + generator.normal(0, between)
        found = run_of(np.exp(centre + generator.normal(0, within, repeats)))
        assert found is not None
        return found

    return draw


def quiet_series(count: int, length: int, between: float, seed: int = 0) -> dict[str, Series]:
    """Returns many series without any change."""
    return {str(n): Series(drawn(seed * 1000 + n, length, between)) for n in range(count)}


def appended(series: Series, name: str, runs: Sequence[Run]) -> Series:
    """Returns a series with one night more."""
    return Series((*series.nights, Night(name, tuple(runs))), series.level)
