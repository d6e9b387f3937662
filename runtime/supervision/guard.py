"""Outlives a killed supervisor by a moment, to end what the worker started: the kernel kills only the worker itself."""

from __future__ import annotations

import sys

from runtime.supervision.processes import end_tree


def main() -> None:
    """`python -m runtime.supervision.guard LABEL…`: waits for standard input to end; a line on it means all is well."""
    if not sys.stdin.buffer.readline():
        for label in sys.argv[1:]:
            end_tree(label.encode(), root=-1)


if __name__ == "__main__":
    main()
