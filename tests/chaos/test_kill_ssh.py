"""Pull the plug at any moment of a run over SSH: the reaper leaves nothing on the hosts, and touches nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import Conversation, ask
from tasks.cloud.storage import open_folder
from tasks.config.home import hosts_folder, ledger_folder, scratch_folder
from tasks.config.ssh_target import SshTargetConfig
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.lease import State, is_lock
from tasks.leases.locks import lock
from tasks.leases.reaper import reap
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.ssh import SshTarget
from tasks.targets.types import Progress
from tests.chaos.driver import (
    PATIENCE_S,
    Plug,
    PluggedFolder,
    PluggedLedger,
    fork_and_play,
    sample,
    soon_enough,
    took_s,
)
from tests.cloud.sshd import Sshd, missing, serve_ssh
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import config_of, host_folder, image_of, python_with_jax, run_of, spec_of
from tests.waiting import until

pytestmark = pytest.mark.chaos

MUTATING = {"make", "lay", "start", "end", "end_lease", "remove", "mark", "unmark"}
"""What hosts are asked that changes something there."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Sshd]]:
    if reason := missing():
        pytest.skip(reason)
    with serve_ssh(2) as hosts:
        yield hosts


@pytest.fixture
def place() -> Iterator[Path]:
    with host_folder() as folder:
        yield folder


@pytest.fixture
def bystander(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process and a folder on the hosts that look like ours, with labels, but of another ledger."""
    labels = {"SLICEBENCH_LEASE": "run-0-e1", "SLICEBENCH_LEDGER_ID": "another"}
    folder = place / "home" / "runs" / "other-w0000"
    folder.mkdir(parents=True)
    for above in (folder.parent, folder.parent.parent):
        above.chmod(0o777)
    (folder / ".slicebench-lease.json").write_text(json.dumps(labels))
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(7200)"],
        env={**os.environ, **labels},
        start_new_session=True,
    )
    yield process
    assert folder.is_dir()
    process.kill()
    process.wait()


def inventories(ledger: DirectoryLedger | PluggedLedger) -> Inventories:
    """Those of hosts alone: the hosts are this machine, whose own inventory would find what theirs do not."""
    opened = open_inventories(ledger, scratch_folder())
    return {kind: one for kind, one in opened.items() if kind.startswith("host_") or kind == "lock"}


def play(place: Path, config: SshTargetConfig, run_id: str, plug: Plug) -> None:
    """Plays all stages over SSH; each thing that is changed on a host is a moment."""
    write, talk_ask = Link.write, Conversation.ask

    def plugged_write(link: Link, path: str, content: bytes, mode: int = 0o644) -> None:
        plug.around(f"write {Path(path).name}", lambda: write(link, path, content, mode))

    def plugged_ask(link: Link, host: Any, op: str, **fields: Any) -> dict[str, Any]:
        if op not in MUTATING:
            return ask(link, host, op, **fields)
        return plug.around(op, lambda: ask(link, host, op, **fields))

    def plugged_talk(talk: Conversation, op: str, **fields: Any) -> dict[str, Any]:
        if op not in MUTATING:
            return talk_ask(talk, op, **fields)
        return plug.around(op, lambda: talk_ask(talk, op, **fields))

    def let_go(progress: Progress) -> None:
        for scratch in (place / "home" / "runs").glob(f"{run_id}-w*/scratch/a*"):
            (scratch / "go").touch()

    with (
        mock.patch.object(Link, "write", plugged_write),
        mock.patch("tasks.targets.ssh_fleet.ask", plugged_ask),
        mock.patch.object(Conversation, "ask", plugged_talk),
        mock.patch("tasks.targets.ssh_sharing.ask", plugged_ask),
        mock.patch("tasks.cloud.ssh_steward.ask", plugged_ask),
    ):
        spec = spec_of(place / "out", config, run_id, workload="wait")
        plain = run_of(spec, place, Pool())
        folder = PluggedFolder(open_folder(f"{spec.output}/{run_id}"), plug)
        run = Run(spec, folder, plain.target, lambda line: None)
        ledger = PluggedLedger(DirectoryLedger(ledger_folder()), plug)
        holding = claim(ledger, inventories(ledger), run_id, run_id)
        try:
            # Not by the stage *provision*: it would refuse hosts whose Python has no JAX, and these need none.
            plan = run.target.plan(spec)
            run.target.preflight(plan)
            for scope, name in plan.locks:
                lock(holding, scope, name)
            workers = run.target.acquire(plan, holding)
            run_workload(run, upload(run, workers, image_of(run)), holding, let_go)
        finally:
            teardown(run, holding)


def count(place: Path, config: SshTargetConfig, into: Path) -> None:
    plug = Plug(None)
    play(place, config, "clean", plug)
    into.write_text(json.dumps(plug.seen))


def outcome(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def sweep_up() -> None:
    """Reaps in a process of its own: this one must have no threads when it forks."""

    def reaping() -> None:
        ledger = DirectoryLedger(ledger_folder())
        findings = reap(ledger, inventories(ledger))
        assert all(found.did in ("released", "kept") for found in findings), findings

    assert outcome(fork_and_play(reaping)) == 0


@pytest.mark.timeout(1500)
def test_killed_before_and_after_every_mutating_call(
    tmp_path: Path, place: Path, hosts: list[Sshd], bystander: subprocess.Popen[bytes]
) -> None:
    config = config_of(hosts, place, output=str(place / "shared"))
    assert outcome(fork_and_play(lambda: count(place, config, tmp_path / "moments"))) == 0
    names = json.loads((tmp_path / "moments").read_text())
    assert {f"before {op}" for op in ("make", "lay", "start", "mark", "remove")} <= set(names)
    survived, took = 0, []
    for at, _ in sample(list(enumerate(names)), also="after start"):
        run_id = f"run-{at}"
        killed = fork_and_play(lambda run_id=run_id, at=at: play(place, config, run_id, Plug(at)))  # type: ignore[misc]
        if outcome(killed) != -signal.SIGKILL:
            assert at >= len(names) - 6, "threads may save one another a moment or two, at the end"
            continue
        survived += bool(alive_under(f"{run_id}-e1"))
        began = time.monotonic()
        sweep_up()
        assert alive_under(f"{run_id}-e1") == [], names[at]
        took.append(took_s(began))
        left = [folder.name for folder in (place / "home" / "runs").iterdir()]
        assert left == ["other-w0000"], names[at]
        leases = DirectoryLedger(ledger_folder()).listing().leases
        assert all(lease.state is State.GONE for lease in leases if not is_lock(lease)), names[at]
        assert not any(lease.holders for lease in leases), names[at]
    assert survived > 0, "the test would prove nothing if workers died with their run"
    assert soon_enough(took), took
    assert bystander.poll() is None


def test_the_machine_that_launched_is_gone_for_good_and_nobody_reaps(place: Path) -> None:
    """Only the supervisors are left, real ones, which nobody renews any more."""
    if reason := missing():
        pytest.skip(reason)
    user, python = python_with_jax()
    with serve_ssh(2, user=user) as hosts:
        config = config_of(hosts, place, python=python, output=str(place / "shared"))

        def launch_and_die() -> None:
            spec = spec_of(place / "out", config)
            target = SshTarget(config, Pool(), AddressBook(hosts_folder()), lease_s=30.0)
            run = Run(spec, open_folder(f"{spec.output}/{spec.run_id}"), target, print)
            ledger = DirectoryLedger(ledger_folder())
            holding = claim(ledger, inventories(ledger), "run-1", "run-1")
            target.start(upload(run, provision(run, holding), image_of(run)), 1, holding)
            os.kill(os.getpid(), signal.SIGKILL)

        assert outcome(fork_and_play(launch_and_die)) == -signal.SIGKILL
        assert alive_under("run-1-e1") != []
        until(lambda: alive_under("run-1-e1") == [], PATIENCE_S)
        sweep_up()
    assert list((place / "home" / "runs").iterdir()) == []
