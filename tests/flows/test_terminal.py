"""A person at a terminal sees a run's milestones and each cause once; with --verbose, everything that happens."""

from __future__ import annotations

import pytest

from flows.terminal import Terminal

RUN = """2 workers x 2 cpu devices = 4
[0] [Gloo] Rank 0 is connected to 1 peer ranks
[0] supervisor: the worker joins the others
benchmark 1 of 2: Save
[0] WARNING:absl:Skipping merge
[1] supervisor: the worker of session 1 has ended: killed by SIGKILL
[0] F0000 coordination_service_agent.cc: another task died
[0] supervisor: benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
[0] supervisor: benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
[1] supervisor: the worker is through 2 benchmarks, 1 failed
worker 0 ended with code 1: benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
worker 1 ended with code 1: benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
attempt 1 failed: benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
verdict: FAILED (1 of 2 benchmarks failed)
report: /runs/r/report.html
1 resource given back, nothing is left"""

MILESTONES = """2 workers x 2 cpu devices = 4
benchmark 1 of 2: Save
benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save
attempt 1 failed
1 resource given back, nothing is left
"""


def test_milestones_are_shown_and_chatter_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal()(RUN)
    assert capsys.readouterr().err == MILESTONES
    Terminal()("a resource called \x1b[2J")
    assert "\x1b" not in capsys.readouterr().err


def test_verbose_shows_all_but_what_the_command_tells_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Terminal(verbose=True)(RUN)
    told_below = ("verdict: ", "report: ")
    assert capsys.readouterr().err.splitlines() == [
        line for line in RUN.splitlines() if not line.startswith(told_below)
    ]


STOPPED = """[1] supervisor: benchmark 1 of 2 (Save) failed: JaxRuntimeError: Connection reset by peer
worker 1 ended with code -9: killed
1 resource given back"""


def test_workers_that_are_being_stopped_do_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.stopping()
    terminal(STOPPED)
    assert capsys.readouterr().err == "1 resource given back\n"


def test_nor_do_those_that_a_ctrl_c_ends(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        Terminal()(STOPPED)
    assert capsys.readouterr().err == "1 resource given back\n"
    Terminal()(STOPPED)
    assert "Connection reset" in capsys.readouterr().err


def test_a_cause_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal("the disk is full")
    terminal.causes(
        ["the disk is full", "Save: leaf a/b differs", "no network\nat all"], ["leaf a/b differs", ""]
    )
    assert capsys.readouterr().err == "the disk is full\nslicebench: no network\nslicebench: at all\n"
