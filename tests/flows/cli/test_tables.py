"""A table that does not fit a terminal is told one row below the other, and says no less."""

from __future__ import annotations

from flows.cli.tables import laid_out

HEADINGS = ("NAME", "STATUS", "MESSAGE")
ROWS = [("first", "RUNNING", "Started: 2 of 2 pods run"), ("second", "QUEUED", "–")]


def test_where_it_fits_columns_are_aligned() -> None:
    told = ["NAME    STATUS   MESSAGE", "first   RUNNING  Started: 2 of 2 pods run", "second  QUEUED   –"]
    assert laid_out(HEADINGS, ROWS, None) == told == laid_out(HEADINGS, ROWS, 41)


def test_where_it_does_not_rows_are_lists_that_leave_out_what_says_nothing() -> None:
    assert laid_out(HEADINGS, ROWS, 22) == [
        "first", "  status: RUNNING", "  message: Started: 2", "    of 2 pods run", "second", "  status: QUEUED",
    ]  # fmt: skip
