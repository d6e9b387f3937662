"""Losing a lease: by the host's own clock, and never because a clock was set."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.contract.job import Owner
from runtime.contract.process import started_at
from runtime.supervision.renewal import Renewals, owner_gone


def test_a_lease_lasts_while_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "renewed"
    path.touch()
    renewals = Renewals(str(path), 10.0, 0.0)
    for now in range(5, 100, 5):
        os.utime(path, (1e9 - now, 1e9 - now))  # a clock that runs backwards renews as well
        assert renewals.overdue(now) == ""
    assert renewals.overdue(105) == ""
    assert "not renewed for 10 s" in renewals.overdue(106)


def test_a_replaced_or_grown_file_renews(tmp_path: Path) -> None:
    path = tmp_path / "renewed"
    path.write_text("a")
    renewals = Renewals(str(path), 10.0, 0.0)
    path.write_text("ab")
    os.utime(path, (1.0, 1.0))
    assert renewals.overdue(9) == ""
    new = tmp_path / "new"
    new.write_text("ab")
    os.utime(new, (1.0, 1.0))
    new.replace(path)
    assert renewals.overdue(18) == ""
    assert renewals.overdue(27) == ""
    assert renewals.overdue(29)


def test_a_missing_file_does_not_renew_and_one_that_comes_late_does(tmp_path: Path) -> None:
    path = tmp_path / "renewed"
    renewals = Renewals(str(path), 10.0, 0.0)
    assert renewals.overdue(9) == ""
    path.touch()
    assert renewals.overdue(9.5) == ""
    path.unlink()
    assert renewals.overdue(19) == ""
    assert renewals.overdue(20)


def test_a_supervisor_that_was_asleep_looks_before_it_judges(tmp_path: Path) -> None:
    path = tmp_path / "renewed"
    path.touch()
    renewals = Renewals(str(path), 10.0, 0.0)
    os.utime(path, (1.0, 1.0))
    assert renewals.overdue(1000.0) == ""


def test_an_owner_is_known_by_pid_and_start() -> None:
    started = started_at(os.getpid())
    assert started is not None
    assert owner_gone(Owner(os.getpid(), started)) == ""
    assert "is gone" in owner_gone(Owner(os.getpid(), started - 0.1))
    assert "is gone" in owner_gone(Owner(2**22 + 1, 1.0))
