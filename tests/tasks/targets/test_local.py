"""The local target with real processes: started once, followed, stopped, labelled, and gone with
the lease."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.job import Job
from runtime.contract.process import started_at
from tasks.config.home import ledger_folder, scratch_folder
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Fenced, Holding
from tasks.leases.lease import State
from tasks.leases.processes import environment, identity
from tasks.stages.context import Run
from tasks.stages.upload import upload
from tasks.targets.types import Exited, LogLine, Progress, Uploaded, WorkloadRef
from tests.tasks.targets.local_runs import IMAGE, alive_under, hold, make_run, spec


@pytest.fixture
def holding_of() -> Iterator[object]:
    """Holds runs, and releases what the test left."""
    held: list[Holding] = []

    def take(run: Run) -> Holding:
        held.append(hold(run))
        return held[-1]

    yield take
    for holding in held:
        if holding.lease.state is not State.GONE:
            try:
                holding.release("the test is over")
            except Fenced:
                continue


def prepare(run: Run, holding: Holding) -> Uploaded:
    workers = run.target.acquire(run.target.plan(run.spec), holding)
    return upload(run, workers, IMAGE)


def pids(ref: WorkloadRef) -> list[int]:
    return [identity(uid)[0] for uid in ref.uid.split()]


def test_a_workload_from_start_to_end(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path))
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    assert Path(uploaded.code, "runtime", "__main__.py").is_file()
    assert not list(Path(uploaded.code).rglob("*.pyc"))
    ref = run.target.start(uploaded, 1, holding)
    events = list(run.target.follow(ref, {}))
    lines = sorted((event.worker, event.text) for event in events if isinstance(event, LogLine))
    assert lines == [(0, "worker 0 of 2 on 2 devices"), (1, "worker 1 of 2 on 2 devices")]
    assert len([event for event in events if isinstance(event, Progress)]) == 4
    assert sorted((event.worker, event.code) for event in events if isinstance(event, Exited)) == [
        (0, 0),
        (1, 0),
    ]
    again = list(run.target.follow(ref, {0: 1, 1: 3}))
    assert [event.cursor for event in again if isinstance(event, LogLine)] == [], "nothing is told twice"


def test_processes_are_labelled_and_the_job_file_is_secret(
    tmp_path: Path, holding_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:secret")
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    for pid in pids(ref):
        labels = environment(pid)
        assert {name: labels[name] for name in holding.labels} == holding.labels
        assert "PREFECT_API_AUTH_STRING" not in labels
        assert os.getsid(pid) == pid, "a session of its own: a terminal's Ctrl-C is not the supervisor's"
    jobs = sorted((scratch_folder() / "run-1").glob("job-*.json"))
    assert [stat.S_IMODE(job.stat().st_mode) for job in jobs] == [0o600, 0o600]
    first, second = (json.loads(job.read_text()) for job in jobs)
    assert first["token"] == second["token"]
    assert (first["worker"], second["worker"], first["rendezvous"]) == (0, 1, second["rendezvous"])
    assert first["owner"] == {"pid": os.getpid(), "started_at": started_at(os.getpid())}
    in_ledger = (ledger_folder() / "run-1-e1.json").read_text()
    assert first["token"] not in in_ledger
    holding.release("done")
    assert alive_under("run-1-e1") == []
    assert not (scratch_folder() / "run-1").exists(), "secrets go with the lease"


def test_each_worker_gets_a_local_directory_of_its_own(tmp_path: Path, holding_of) -> None:
    run = make_run(replace(spec(tmp_path), local_directory="/dev/shm/tiers/"))
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    list(run.target.follow(ref, {}))
    jobs = sorted((scratch_folder() / "run-1").glob("job-a1-*.json"))
    folders = [Job.read(job).local_directory for job in jobs]
    assert folders == ["/dev/shm/tiers/run-1-w0000", "/dev/shm/tiers/run-1-w0001"]


def test_start_is_idempotent_for_an_attempt_and_ends_the_one_before(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    first = run.target.start(uploaded, 1, holding)
    assert run.target.start(uploaded, 1, holding) == first
    assert sorted(alive_under("run-1-e1")) == sorted(pids(first))
    second = run.target.start(uploaded, 2, holding)
    assert sorted(alive_under("run-1-e1")) == sorted(pids(second))
    names = sorted(ref.name for ref in holding.lease.resources if ref.kind == "process")
    assert names == ["supervisor-a2-w0000", "supervisor-a2-w0001"]


def test_when_one_supervisor_is_missing_the_attempt_starts_anew(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    first = run.target.start(uploaded, 1, holding)
    os.kill(pids(first)[1], signal.SIGKILL)
    os.waitpid(pids(first)[1], 0)
    second = run.target.start(uploaded, 1, holding)
    assert not set(pids(first)) & set(pids(second))
    assert sorted(alive_under("run-1-e1")) == sorted(pids(second))


def test_stop_lets_supervisors_say_a_last_word(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    events = run.target.follow(ref, {})
    heard: set[int] = set()
    while heard != {0, 1}:
        heard.add(next(events).worker)  # type: ignore[union-attr]
    run.target.stop(ref, 10.0)
    assert {event.cause for event in events if isinstance(event, Exited)} == {"told to stop"}
    assert alive_under("run-1-e1") == []


def test_a_killed_supervisor_is_lost_not_forgotten(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="crash"))
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    exits = [event for event in run.target.follow(ref, {}) if isinstance(event, Exited)]
    assert [(event.code, "killed" in event.cause) for event in exits] == [(-9, True)] * 2


def test_nothing_starts_once_the_lease_is_lost(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    hold(run)
    with pytest.raises(Fenced):
        run.target.start(uploaded, 1, holding)
    assert alive_under("run-1-e1") == []


def test_renewing_touches_the_file_the_supervisors_watch(tmp_path: Path, holding_of) -> None:
    run = make_run(spec(tmp_path, workload="wait"))
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    job = json.loads(next((scratch_folder() / "run-1").glob("job-*.json")).read_text())
    os.utime(job["renewal_file"], (0, 0))
    run.target.renew(ref)
    assert Path(job["renewal_file"]).stat().st_mtime > 0
    holding.release("done")
    run.target.renew(ref)


def test_with_output_elsewhere_everything_local_goes_with_the_lease(tmp_path: Path, holding_of) -> None:
    run = make_run(spec("gs://bucket/runs", workload="wait"))
    holding = holding_of(run)
    workers = run.target.acquire(run.target.plan(run.spec), holding)
    from tasks.stages.upload import worker_code
    from tasks.targets.types import Bundle, Workload

    suite = tmp_path / "suite.yaml"
    suite.write_text("suite_name: tiny\n")
    bundle = Bundle({"suite.yaml": str(suite), **worker_code()}, Workload("run-1", "gs://bucket/runs/run-1"))
    uploaded = run.target.upload(workers, bundle, IMAGE)
    folder = scratch_folder() / "run-1"
    assert uploaded.suite == str(folder / "bundle" / "suite.yaml")
    holding.release("done")
    assert not folder.exists()
    assert DirectoryLedger(ledger_folder()).listing().leases[0].state is State.GONE
