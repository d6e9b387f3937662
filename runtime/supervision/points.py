"""Prints the points of a suite as the records with which they would begin: for results of points that never did.

Run with the worker's Python, for the supervisor's own may lack a YAML reader.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.contract.expand import expand
from runtime.contract.progress import encode
from runtime.contract.suite_reader import read_suite
from runtime.contract.yamlfile import read_text
from runtime.effective import begin


def main() -> None:
    """`python -m runtime.supervision.points SUITE`: prints one record a line."""
    path = Path(sys.argv[1])
    points = expand(read_suite(read_text(path), str(path)))
    for point in points:
        print(encode(begin(point, len(points))))


if __name__ == "__main__":
    main()
