"""A whole run on four sshd of this machine: real supervisors and workers, JAX on CPUs, links dropped meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from runtime.contract.errors import ExitCode
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.config.home import hosts_folder
from tasks.config.request import RunRequest
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tasks.stages.build import build
from tasks.stages.collect import collect
from tasks.stages.context import Run
from tasks.stages.prepare import prepare
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of, run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.ssh import SshTarget
from tasks.targets.types import Exited, Progress
from tests.cloud.sshd import Sshd, missing, serve_ssh, target_yaml
from tests.system.prefect_station import PATIENCE_S
from tests.tasks.cloud.test_ssh import endpoint
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import hold, host_folder, python_with_jax
from tests.waiting import until

pytestmark = pytest.mark.system

SLOWLY = Patience(deadline_s=PATIENCE_S)
"""What lies on hosts goes in seconds; each step of it takes some, where others use the machine."""

LEASE_S = 15.0
"""Longer than a machine stalls for, in which nobody stopped renewing."""

SUITE = """\
suite_name: small
num_repeats: 2
mesh_config: {mesh_axes: [x], ici_parallelism: {x: 4}}
checkpoint_config:
  spec: {a: {dtype: float32, shape: [64, 64], sharding: [x, null]}}
benchmarks:
  - generator: runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint
    options: {use_ocdbt: [true, false]}
"""


RUNAWAY_SUITE = """\
suite_name: runaway
benchmarks:
  - generator: mine.Runaway
    options: {}
"""

RUNAWAY = """\
import os, subprocess, time
from pathlib import Path

import jax
from runtime.benchmarks.benchmark import Benchmark
from runtime.contract.options import SaveLoadOptions

class Runaway(Benchmark):
    options_class = SaveLoadOptions

    def run(self, context):
        child = subprocess.Popen(["setsid", "sleep", "600"])
        time.sleep(0.5)
        Path(__file__).parents[5].joinpath(f"escaped-{jax.process_index()}").write_text(str(child.pid))
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def four_hosts() -> Iterator[list[Sshd]]:
    if reason := missing():
        pytest.skip(reason)
    user, _ = python_with_jax()
    with serve_ssh(4, user=user) as hosts:
        yield hosts


@pytest.fixture
def place() -> Iterator[Path]:
    with host_folder() as folder:
        yield folder


def prepared(place: Path, hosts: list[Sshd], said: list[str], suite: str = SUITE, **more: object) -> Run:
    (place / "suite.yaml").write_text(suite)
    target = yaml.safe_load(target_yaml(hosts, python_with_jax()[1]))
    (place / "hosts.yaml").write_text(yaml.safe_dump({**target, "folder": str(place / "home"), **more}))
    request = RunRequest(
        suite=str(place / "suite.yaml"),
        target=str(place / "hosts.yaml"),
        output=str(place / "out"),
        run_id="run-1",
    )
    return prepare(request, said.append)


def test_four_workers_save_and_restore_while_links_break(four_hosts: list[Sshd], place: Path) -> None:
    said: list[str] = []
    run = prepared(place, four_hosts, said)
    holding = hold(run)
    broken: set[tuple[int, int]] = set()

    def drop(progress: Progress) -> None:
        """Breaks all links once in each repeat: by the pace of the work, so that calls get through between."""
        if (progress.point, progress.repeat) not in broken:
            broken.add((progress.point, progress.repeat))
            for host in four_hosts:
                host.drop()

    try:
        image = build(run)
        uploaded = upload(run, provision(run, holding), image)
        outcome = run_workload(run, uploaded, holding, drop)
        results = collect(run)
    finally:
        teardown(run, holding, patience=SLOWLY)
    assert broken == {(point, repeat) for point in (0, 1) for repeat in (0, 1)}
    assert exit_code_of(outcome) == ExitCode.DONE, said
    assert (results.passed, len(results.points), results.troubles) == (2, 2, [])
    assert results.samples > 0
    assert holding.lease.state is State.GONE
    assert alive_under("run-1-e1") == []
    assert list((place / "home" / "runs").iterdir()) == []
    for worker in range(4):
        log = (place / "out" / "run-1" / "logs" / f"worker-{worker:04d}.log").read_text().splitlines()
        assert sum("the worker is through 2 benchmarks" in line for line in log) == 1, (
            "neither lost nor repeated"
        )


def test_a_lone_worker_writes_on_its_host_and_its_results_come_home(
    four_hosts: list[Sshd], place: Path
) -> None:
    said: list[str] = []
    run = prepared(place, four_hosts[:1], said, output=str(place / "on-the-host"))
    holding = hold(run)
    try:
        image = build(run)
        outcome = run_workload(run, upload(run, provision(run, holding), image), holding)
        assert exit_code_of(outcome) == ExitCode.DONE, said
        assert list(run.folder.names("results")) == []
        results = collect(run)
    finally:
        teardown(run, holding, patience=SLOWLY)
    assert (results.passed, results.troubles) == (2, [])
    kinds = {Path(name).name.partition("-")[0] for name in run.folder.names("results")}
    assert kinds == {"host", "manifest", "points", "samples"}


def test_without_renewals_the_supervisor_ends_everything_setsid_children_included(
    four_hosts: list[Sshd], place: Path
) -> None:
    (place / "mine.py").write_text(RUNAWAY)
    run = prepared(place, four_hosts[:2], [], suite=RUNAWAY_SUITE)
    run = replace(
        run, target=SshTarget(run.spec.target, Pool(), AddressBook(hosts_folder()), lease_s=LEASE_S)
    )  # type: ignore[arg-type]
    holding = hold(run)
    uploaded = upload(run, provision(run, holding), build(run))
    ref = run.target.start(uploaded, 1, holding)
    with renewing(lambda: run.target.renew(ref)):
        until(lambda: len(written(place)) == 2, PATIENCE_S)
        escaped = [int(one) for one in written(place)]
        known = time.monotonic()
        until(lambda: time.monotonic() > known + LEASE_S, 2 * LEASE_S)
        assert all(pid in alive_under("run-1-e1") for pid in escaped), "renewals keep it"
        assert all(os.getsid(pid) == pid for pid in escaped)
    exits = [event for event in run.target.follow(ref, {}) if isinstance(event, Exited)]
    assert {event.code for event in exits} == {ExitCode.INFRASTRUCTURE}
    assert any("the lease was not renewed for 15 s" in event.cause for event in exits)
    until(lambda: not alive_under("run-1-e1"), PATIENCE_S)
    teardown(run, holding, patience=SLOWLY)


def written(place: Path) -> list[str]:
    """Returns what the workers wrote of whom they started: a file is there before its content."""
    return [content for file in place.glob("escaped-*") if (content := file.read_text())]


@contextmanager
def renewing(renew: Callable[[], None]) -> Iterator[None]:
    """Renews every half second while the block runs."""
    over = threading.Event()

    def keep_on() -> None:
        while not over.wait(0.5):
            renew()

    thread = threading.Thread(target=keep_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_hundred_hosts(place: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    with serve_ssh(100) as hosts:
        pool = Pool()
        told = pool.each([endpoint(host) for host in hosts], lambda link: link.run(["echo", "here"]).output)
        assert set(told.values()) == {b"here\n"}
        for host in hosts[::2]:
            host.drop()
        again = pool.each([endpoint(host) for host in hosts], lambda link: link.run(["echo", "here"]).output)
        assert set(again.values()) == {b"here\n"}
        pool.close()
