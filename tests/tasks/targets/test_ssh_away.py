"""Runs over SSH when links break, hosts freeze or are gone, and a supervisor is killed: nothing is lost or made up."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.cloud.ssh import Pool
from tasks.leases.holding import Holding
from tasks.leases.hosts import HostFolderInventory, HostProcessInventory
from tasks.leases.inventory import Pace
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.stages.context import Run
from tasks.targets.streams import SILENT
from tasks.targets.types import Exited, LogLine, Progress
from tasks.targets.types import State as Told
from tests.cloud.sshd import Sshd, serve_ssh
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import (
    config_of,
    holding_of,
    pids,
    place,
    pool,
    prepare,
    run_of,
    spec_of,
    wait_for_hosts,
)
from tests.waiting import PATIENCE_S, until


def test_output_goes_on_over_a_dropped_link_without_a_lost_or_repeated_line(
    own_host: Sshd, place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    run = run_of(spec_of(place / "out", config_of([own_host], place), workload="count"), place, pool)
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    lines: list[str] = []
    drops = 0
    for event in run.target.follow(ref, {}):
        if isinstance(event, LogLine):
            lines.append(event.text)
            if len(lines) % 60 == 0 and drops < 4:
                own_host.drop()
                drops += 1
    assert lines[1:] == [f"line {number}" for number in range(300)]
    assert drops == 4


def test_a_host_that_is_away_is_told_once_and_comes_back(
    own_host: Sshd, place: Path, holding_of: Callable[[Run], Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(connect_s=PATIENCE_S)
    run = run_of(spec_of(place / "out", config_of([own_host], place), workload="wait"), place, pool)
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    events = run.target.follow(ref, {})
    told: list[str] = []
    frozen = False
    for event in events:
        if isinstance(event, Progress) and not frozen:
            own_host.freeze()
            frozen = True
            wait_for_hosts(pool, 0.5, monkeypatch)
        if isinstance(event, Told):
            told.append(event.state)
            if event.state == "unreachable":
                assert own_host.address in event.reason
                assert alive_under("run-1-e1") == pids(ref), "out of sight is not dead"
                own_host.thaw()
                wait_for_hosts(pool, PATIENCE_S, monkeypatch)
            else:
                (Path(ref.scratch[0]) / "go").touch()
        if isinstance(event, Exited):
            assert event.code == 0
    assert told == ["unreachable", "running"]
    pool.close()


@pytest.mark.system  # a silent host is waited for, for most of a minute
def test_a_host_that_stays_away_is_given_up_with_the_truth(
    need_sshd: None, place: Path, holding_of: Callable[[Run], Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.targets.ssh_fleet._LOST_MARGIN_S", 0.5)
    for inventory in (HostProcessInventory, HostFolderInventory):
        monkeypatch.setattr(inventory, "pace", Pace(goes_within_s=30.0, remote=True))
    with serve_ssh(2) as hosts:
        pool = Pool(connect_s=PATIENCE_S)
        config = config_of(hosts, place, output=str(place / "shared"))
        run = run_of(spec_of(place / "out", config, workload="wait"), place, pool, lease_s=1.0)
        holding = holding_of(run)
        ref = run.target.start(prepare(run, holding), 1, holding)
        hosts[1].stop()
        (Path(ref.scratch[0]) / "go").touch()
        ends = {event.worker: event for event in run.target.follow(ref, {}) if isinstance(event, Exited)}
        assert (ends[0].code, ends[1].code) == (0, SILENT)
        assert hosts[1].address in ends[1].cause
        assert "nothing listens there" in ends[1].cause
        swept = holding.release("over", Patience(grace_s=0.5, deadline_s=2.0))
        assert swept.left == ()
        assert any(hosts[1].address in problem for problem in swept.problems), "not looked at is not gone"
        assert swept.lease.state is State.LEAKED
        for pid in alive_under("run-1-e1"):
            os.kill(pid, signal.SIGKILL)
        pool.close()


def test_a_supervisor_killed_on_its_host_is_lost(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    run = run_of(spec_of(place / "out", config_of(two_hosts[:1], place), workload="crash"), place, pool)
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    [end] = [event for event in run.target.follow(ref, {}) if isinstance(event, Exited)]
    assert (end.code, "without a last word" in end.cause) == (-9, True)


def test_renewals_touch_the_file_and_do_not_wait_for_the_dead(
    need_sshd: None, place: Path, holding_of: Callable[[Run], Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_ssh(2) as hosts:
        pool = Pool(connect_s=PATIENCE_S)
        config = config_of(hosts, place, output=str(place / "shared"))
        run = run_of(spec_of(place / "out", config, workload="wait"), place, pool)
        holding = holding_of(run)
        ref = run.target.start(prepare(run, holding), 1, holding)
        files = [Path(scratch).parents[1] / "renewed" for scratch in ref.scratch]
        before = [file.stat().st_mtime_ns for file in files]
        hosts[1].freeze()
        wait_for_hosts(pool, 10 * PATIENCE_S, monkeypatch)  # whoever waits for the dead does not come back
        run.target.renew(ref)
        until(lambda: files[0].stat().st_mtime_ns > before[0])
        run.target.renew(ref)
        hosts[1].thaw()
        until(lambda: files[1].stat().st_mtime_ns > before[1])
        holding.release("done")
        pool.close()
