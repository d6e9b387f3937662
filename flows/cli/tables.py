"""Tables of commands: aligned columns, or on a terminal in which they do not fit one row below the other."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

_NOTHING = ("", "–")
"""Cells that say nothing: below each other they are left out."""


def lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table for stdout, as wide as that is where it is a terminal."""
    return laid_out(headings, rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)


def laid_out(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Returns the lines of a table; `width`: letters that fit in a line, None: as many as there are. Pure."""
    everything = [headings, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(headings))]
    table = [
        "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in everything
    ]
    if width is None or max(map(len, table)) <= width:
        return table
    return [line for row in rows for line in _block(headings, row, width)]


def _block(headings: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yields a row as lines of its own: what it is called, and below it what else it says."""
    yield row[0]
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        if cell not in _NOTHING:
            told = f"{heading.lower()}: {cell}"
            yield from textwrap.wrap(
                told, max(width, 20), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
