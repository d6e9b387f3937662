"""Pull the plug around every write of a ledger in Cloud Storage: the next reaper leaves nothing of the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.config.home import ledger_uri, scratch_folder
from tasks.leases.finding import Finding
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import State
from tasks.leases.opening import open_ledger
from tasks.leases.reaper import reap
from tests.chaos.driver import PATIENCE_S, Plug, fork_and_play, play, sample
from tests.chaos.test_kill_local import end, moments
from tests.cloud.fake_gcs import make_bucket
from tests.cloud.faulty_proxy import serve_proxy
from tests.tasks.targets.local_runs import alive_under
from tests.waiting import until


def sweep_up() -> list[Finding]:
    ledger = open_ledger(ledger_uri())
    return reap(ledger, open_inventories(ledger, scratch_folder()))


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_killed_before_and_after_every_write(
    tmp_path: Path,
    gcs_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLICEBENCH_LEDGER", f"{gcs_bucket}/ledger")
    names = moments(tmp_path)
    writes = [(at, name) for at, name in enumerate(names) if " ledger " in name]
    assert len(writes) >= 16
    survived = 0
    for at, name in sample(writes):
        run_id = f"run-{at}"
        pid = fork_and_play(lambda run_id=run_id, at=at: play(tmp_path, run_id, Plug(at)))  # type: ignore[misc]
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, name
        survived += bool(alive_under(f"{run_id}-e1"))
        sweep_up()
        assert alive_under(f"{run_id}-e1") == [], name
        lease = open_ledger(ledger_uri()).read(f"{run_id}-e1")
        assert lease is None if at == writes[0][0] else lease is not None and lease.state is State.GONE, name
        assert not (scratch_folder() / run_id).exists(), name
    assert survived > 0 or "CHAOS_SAMPLE" in os.environ
    assert [found.did for found in sweep_up()] == []


@pytest.mark.chaos
@pytest.mark.parametrize("do", ["kill_before", "kill_after"])
def test_killed_by_the_service_itself_as_it_takes_each_write(
    tmp_path: Path,
    gcs_url: str,
    monkeypatch: pytest.MonkeyPatch,
    do: str,
) -> None:
    """The request is under way: what the run never heard of, the reaper reads."""
    bucket = make_bucket(gcs_url)
    with serve_proxy(gcs_url) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        monkeypatch.setenv("SLICEBENCH_LEDGER", f"gs://{bucket}/ledger")
        for nth in (2, 4, 6):
            run_id = f"run-{do.replace('_', '-')}-{nth}"
            ready, go = os.pipe()

            def play_when_told(run_id: str = run_id, ready: int = ready) -> None:
                os.read(ready, 1)
                play(tmp_path, run_id, Plug(None))

            pid = fork_and_play(play_when_told)
            proxy.spoil({"method": "POST", "path": "/upload/", "nth": nth, "do": do, "pid": pid})
            os.write(go, b"!")
            _, status = os.waitpid(pid, 0)
            os.close(ready)
            os.close(go)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            proxy.spoil()
            sweep_up()
            assert alive_under(f"{run_id}-e1") == []
            lease = open_ledger(ledger_uri()).read(f"{run_id}-e1")
            assert lease is not None and lease.state is State.GONE
    assert not list(scratch_folder().glob("run-*"))


@pytest.mark.chaos
def test_a_ledger_out_of_reach_in_the_middle_does_not_keep_hardware(
    tmp_path: Path,
    gcs_url: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    bucket = make_bucket(gcs_url)
    with serve_proxy(gcs_url) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        monkeypatch.setenv("SLICEBENCH_LEDGER", f"gs://{bucket}/ledger")
        pid = fork_and_play(lambda: play(tmp_path, "run-1", Plug(None), workload="hold"))
        request.addfinalizer(lambda: end(pid))
        logs = tmp_path / "run-1" / "logs"
        until(lambda: len(alive_under("run-1-e1")) == 2 and list(logs.glob("*.log")), PATIENCE_S)
        proxy.spoil({"do": "error", "times": 10_000})
        os.kill(pid, signal.SIGINT)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == ExitCode.LEAKED, "it cannot write that all is gone"
        proxy.spoil()
        assert alive_under("run-1-e1") == []
        assert not (scratch_folder() / "run-1").exists()
        assert [found.did for found in sweep_up()] == ["released"]
