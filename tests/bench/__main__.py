"""`python -m tests.bench [NAME…] [--write]`: runs the benches of this folder and says which of their bars hold."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.bars import Bar, table
from tests.bench.machine import commit, load, machine, now

NAMES = (
    "runtime",
    "agreement",
    "overhead",
    "ssh",
    "loop",
    "pod_start",
    "follow",
    "workload",
    "detection",
    "levels",
    "found",
    "public",
    "history",
    "proxy",
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"


def main(arguments: Sequence[str]) -> int:
    """Returns 0 when every bar holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no bench is named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(f"{machine()}\n", flush=True)
    missed: list[Bar] = []
    for name in given.names or NAMES:
        block, bars = _play(name)
        print(f"{block}\n", flush=True)
        if given.write:
            put_in(DOCUMENT, name, block)
        missed += [bar for bar in bars if not bar.holds]
    for bar in missed:
        print(f"missed: {bar.what}: {bar.value:.3f}", file=sys.stderr)
    return 1 if missed else 0


def _play(name: str) -> tuple[str, list[Bar]]:
    """Runs one bench; returns its bars, and what there is to tell of it as Markdown."""
    began, before = time.monotonic(), load()
    bars: list[Bar] = importlib.import_module(f"tests.bench.bench_{name}").measure()
    took = time.monotonic() - began
    about = f"{now()}, commit {commit()}, {took:.0f} s, load {before} before and {load()} after. {machine()}."
    return f"{about}\n\n{table(bars)}", bars


def put_in(document: Path, name: str, block: str) -> None:
    """Replaces what stands between a bench's marks in a document."""
    text = document.read_text()
    begin, end = f"<!-- bench {name} -->\n", f"<!-- end of bench {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise RuntimeError(f"{document} has no place for the bench {name}: {begin}{end}")
    document.write_text(f"{before}{begin}\n{block}\n\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
