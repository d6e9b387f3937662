"""How many rounds a bench plays: as many as fit into its time, for `make bench` must end on slow machines too.

BENCH_PATIENCE=5 in the environment gives five times the time, for machines whose noise takes more rounds.
"""

from __future__ import annotations

import os
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
    budget_s *= float(os.environ.get("BENCH_PATIENCE", "1"))
    began = clock()
    for number in range(most):
        yield number
        done, took = number + 1, clock() - began
        print(f"{what}: round {done} of at most {most}", file=sys.stderr, flush=True)
        if done >= least and took + took / done > budget_s:
            return
