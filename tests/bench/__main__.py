"""`python -m tests.bench [NAME…]`: runs the benches of this folder and says which of their bars hold."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.bench.bars import Bar, table


def names() -> list[str]:
    """Returns the benches: modules here that have a `measure` function, by convention named bench_*.py."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def main(wanted: list[str]) -> int:
    """Returns 0 when every bar holds."""
    unknown = set(wanted) - set(names())
    if unknown:
        print(f"no bench named {', '.join(sorted(unknown))}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    bars: list[Bar] = []
    for name in wanted or names():
        bars += importlib.import_module(f"tests.bench.bench_{name}").measure()
    print(table(bars))
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
