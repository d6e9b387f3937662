"""Series made from a seed for the bench of detection: their noise, and what happens to which in which night."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RUNS = 2
"""Of each night: the run, and the rerun that a detector may ask for."""

SPIKES = 1 / 200
"""The share of runs that are spikes where there are any."""


@dataclass(frozen=True)
class Drawn:
    """`values`: seconds, (series, nights, runs, repeats), NaN in nights without a run. Judged from night `begin` on.

    `onset`: of each series the night in which it gets slower, -1 where it never does.
    """

    values: Array
    begin: int
    onset: NDArray[np.int64]

    @property
    def medians(self) -> Array:
        """Returns (series, nights, runs) of medians over repeats."""
        median: Array = np.median(self.values, axis=-1)
        return median


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms: between runs, and of the repeats within one."""

    between: float
    within: float = 0.02
    repeats: int = 5


def quiet(noise: Noise, *, history: int, nights: int, series: int, seed: int, spikes: float = 0.0) -> Drawn:
    """Returns series of a constant mean; with spikes, single runs that take much longer."""
    generator = np.random.default_rng(seed)
    shape = (series, history + nights, RUNS)
    centres = generator.normal(0, noise.between, shape)
    struck = generator.random(shape) < spikes
    centres += np.where(struck, generator.uniform(0.05, 0.5, shape), 0)
    return _repeated(centres, noise, generator, history, np.full(series, -1))


def stepped(noise: Noise, size: float, *, history: int, series: int, changed: int, seed: int) -> Drawn:
    """Returns series of which the first few step up by `size` in the first of two nights that are judged."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, noise.between, (series, history + 2, RUNS))
    centres[:changed, history:] += np.log1p(size)
    onset = np.where(np.arange(series) < changed, history, -1)
    return _repeated(centres, noise, generator, history, onset)


def levelled(
    noise: Noise,
    moved: float,
    step: float,
    after: int,
    *,
    history: int,
    nights: int,
    series: int,
    seed: int,
    spikes: float = 0.0,
) -> Drawn:
    """Returns series of which every fifth is another by `moved` from the first judged night on, and slower by `step` so
    many nights `after`; negative: never."""
    generator = np.random.default_rng(seed)
    shape = (series, history + nights, RUNS)
    centres = generator.normal(0, noise.between, shape)
    centres += np.where(generator.random(shape) < spikes, generator.uniform(0.05, 0.5, shape), 0)
    centres[::5, history:] += np.log1p(moved)
    onset = np.full(series, -1)
    if after >= 0:
        centres[::5, history + after :] += np.log1p(step)
        onset[::5] = history + after
    return _repeated(centres, noise, generator, history, onset)


def mixed(kind: str, noise: Noise, *, history: int, nights: int, series: int, seed: int) -> Drawn:
    """Returns series of which every fifth gets slower by a rule named in KINDS, in a night of its own."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, noise.between, (series, history + nights, RUNS))
    onset = np.where(np.arange(series) % 5 == 0, history + 2 + np.arange(series) // 5 % (nights - 4), -1)
    scale = np.ones((series, history + nights))
    for one in range(series):
        KINDS[kind](centres[one], scale[one], int(onset[one]), history, generator)
    if kind == "gaps":
        missing = generator.random(centres.shape[:2]) < 0.2
        missing[np.arange(series), onset] &= onset < 0  # the change itself is seen
        centres[missing] = np.nan
    if kind == "spikes":
        onset = np.full(series, -1)
    if kind == "shift":
        centres[:, history + nights // 2 : history + nights // 2 + 2] += np.log(1.06)
    return _repeated(centres, noise, generator, history, onset, scale)


def _step(centres: Array, scale: Array, onset: int, history: int, generator: np.random.Generator) -> None:
    if onset >= 0:
        centres[onset:] += np.log(1.05)


def _ramp(centres: Array, scale: Array, onset: int, history: int, generator: np.random.Generator) -> None:
    if onset >= 0:
        after = np.arange(len(centres)) - onset
        centres += np.clip(after + 1, 0, 4)[:, None] * np.log(1.025)


def _spikes(centres: Array, scale: Array, onset: int, history: int, generator: np.random.Generator) -> None:
    struck = generator.random(centres.shape) < SPIKES
    centres += np.where(struck, generator.uniform(0.05, 0.5, centres.shape), 0)


def _wilder(centres: Array, scale: Array, onset: int, history: int, generator: np.random.Generator) -> None:
    """Repeats scatter twice as much from the first night that is judged on, and a step comes on top."""
    scale[history:] = 2.0
    _step(centres, scale, onset, history, generator)


def _weekly(centres: Array, scale: Array, onset: int, history: int, generator: np.random.Generator) -> None:
    week = np.sin(np.arange(len(centres)) * 2 * np.pi / 7 + generator.uniform(0, 6))
    centres += 0.01 * week[:, None]
    _step(centres, scale, onset, history, generator)


Rule = Callable[[Array, Array, int, int, np.random.Generator], Any]

KINDS: dict[str, Rule] = {
    "step": _step,
    "ramp": _ramp,
    "spikes": _spikes,
    "wilder": _wilder,
    "weekly": _weekly,
    "gaps": _step,
    "shift": _step,
}
"""What happens to series: see the table of docs/statistics.md."""


def _repeated(
    centres: Array,
    noise: Noise,
    generator: np.random.Generator,
    begin: int,
    onset: NDArray[np.int64],
    scale: Array | None = None,
) -> Drawn:
    within = generator.normal(0, noise.within, (*centres.shape, noise.repeats))
    if scale is not None:
        within *= scale[..., None, None]
    return Drawn(np.exp(centres[..., None] + within), begin, onset)
