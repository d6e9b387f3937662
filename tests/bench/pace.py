"""How many rounds a bench plays: as many as fit into its time, for `make bench` must end on slow machines too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator


def rounds(
    what: str,
    least: int,
    most: int,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[int]:
    """Yields the numbers of the rounds, from 0: at least `least`, and more only as far as the budget will do.

    Time alone decides when to stop, never what was measured.
    """
    began = clock()
    for number in range(most):
        yield number
        done, took = number + 1, clock() - began
        print(f"{what}: round {done} of at most {most}", file=sys.stderr, flush=True)
        if done >= least and took + took / done > budget_s:
            return
