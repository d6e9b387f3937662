"""The SSH target on real sshd: uploaded by hash, started once, followed over broken links, stopped, gone."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import getpass
import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_errors import Unfit
from tasks.leases.holding import Holding
from tasks.leases.processes import environment
from tasks.stages.context import Run
from tasks.stages.run import run_workload
from tasks.targets.types import Exited, LogLine, Progress
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
)
from tests.waiting import until


def test_a_workload_from_start_to_end(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    config = config_of(two_hosts, place, output=str(place / "shared"))
    run = run_of(spec_of(place / "out", config), place, pool)
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    ref = run.target.start(uploaded, 1, holding)
    events = list(run.target.follow(ref, {}))
    lines = sorted((event.worker, event.text) for event in events if isinstance(event, LogLine))
    assert lines == [(0, "worker 0 of 2 on 2 devices"), (1, "worker 1 of 2 on 2 devices")]
    assert len([event for event in events if isinstance(event, Progress)]) == 4
    ends = sorted((event.worker, event.code) for event in events if isinstance(event, Exited))
    assert ends == [(0, 0), (1, 0)]
    again = list(run.target.follow(ref, {0: 1, 1: 3}))
    assert [event for event in again if isinstance(event, LogLine)] == [], "nothing is told twice"
    holding.release("done")
    assert alive_under("run-1-e1") == []
    assert list((place / "home" / "runs").iterdir()) == [], "secrets go with the lease"
    assert list((place / "home" / "store").iterdir()), "what later runs need again stays"


def test_processes_are_labelled_and_the_job_file_is_secret(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    config = config_of(two_hosts, place, output=str(place / "shared"))
    run = run_of(spec_of(place / "out", config, workload="wait"), place, pool)
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    for pid in pids(ref):
        labels = environment(pid)
        assert {name: labels[name] for name in holding.labels} == holding.labels
        assert os.getsid(pid) == pid, "a session of its own: it outlives the connection"
    files = sorted((place / "home" / "runs").glob("*/job-a1.json"))
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert [stat.S_IMODE(file.parent.stat().st_mode) for file in files] == [0o700, 0o700]
    first, second = (json.loads(file.read_text()) for file in files)
    assert first["token"] == second["token"]
    assert (first["worker"], second["worker"], first["rendezvous"]) == (0, 1, second["rendezvous"])
    assert first["rendezvous"].startswith(f"{two_hosts[0].address}:")
    assert (first["owner"], first["output"]) == (None, str(place / "shared" / "run-1"))
    for host in two_hosts:
        for session in host.sessions():
            session.kill()
    assert sorted(alive_under("run-1-e1")) == sorted(pids(ref))


def test_start_is_idempotent_for_an_attempt_and_ends_the_one_before(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    config = config_of(two_hosts, place, output=str(place / "shared"))
    run = run_of(spec_of(place / "out", config, workload="wait"), place, pool)
    holding = holding_of(run)
    uploaded = prepare(run, holding)
    first = run.target.start(uploaded, 1, holding)
    assert run.target.start(uploaded, 1, holding) == first
    os.kill(pids(first)[1], signal.SIGKILL)
    until(lambda: len(alive_under("run-1-e1")) == 1)
    again = run.target.start(uploaded, 1, holding)
    assert not set(pids(again)) & set(pids(first)), "half of an attempt is none"
    second = run.target.start(uploaded, 2, holding)
    assert sorted(alive_under("run-1-e1")) == sorted(pids(second))
    names = sorted(ref.name for ref in holding.lease.resources if ref.kind == "host_process")
    assert names == ["supervisor-a2-w0000", "supervisor-a2-w0001"]
    until(lambda: all((Path(scratch) / "stream.jsonl").exists() for scratch in second.scratch))
    run.target.stop(second, 5.0)
    assert alive_under("run-1-e1") == []
    ends = [event for event in run.target.follow(second, {}) if isinstance(event, Exited)]
    assert {(event.code, event.cause) for event in ends} == {(130, "told to stop")}


def test_a_bundle_is_sent_once_and_damage_is_repaired(
    two_hosts: list[Sshd],
    place: Path,
    pool: Pool,
    holding_of: Callable[[Run], Holding],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tasks.cloud.ssh_link import Link

    sent: list[int] = []
    write = Link.write

    def counting(link: Link, path: str, content: bytes, mode: int = 0o644) -> None:
        sent.append(len(content))
        write(link, path, content, mode)

    monkeypatch.setattr(Link, "write", counting)
    config = config_of(two_hosts[:1], place)
    run = run_of(spec_of(place / "out", config), place, pool)
    holding = holding_of(run)
    prepare(run, holding)
    [whole] = sent
    code = place / "home" / "runs" / "run-1-w0000" / "bundle" / "code" / "runtime" / "supervise.py"
    original = code.read_text()
    code.write_text("what one run does to its files")
    prepare(run, holding)
    assert (len(sent), code.read_text()) == (1, original)
    stored = next((place / "home" / "store").iterdir())
    stored.write_bytes(b"damaged")
    prepare(run, holding)
    assert len(sent) == 2
    assert sent[1] < whole / 5


def test_a_run_is_followed_and_what_a_lone_worker_wrote_comes_home(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    (place / "out").mkdir(mode=0o755)
    (place / "out").chmod(0o755)  # bench may not write there: the worker's own folder is taken
    run = run_of(spec_of(place / "out", config_of(two_hosts[:1], place), workload="write"), place, pool)
    holding = holding_of(run)
    ref = run.target.start(prepare(run, holding), 1, holding)
    list(run.target.follow(ref, {}))
    if two_hosts[0].user == getpass.getuser():
        assert ref.output == "", "the same folder: nothing to fetch"
    else:
        assert ref.output == f"{place}/home/runs/run-1-w0000/output"
        assert run.folder.read("results/deep/er/file") is None
    assert run.target.fetch(ref, run.folder) == []
    assert run.folder.read("results/deep/er/file") == b"result"
    if ref.output:
        assert run.folder.read("checkpoints/large") is None, "checkpoints are large, and nobody reads them"
        holding.release("over")
        [problem] = run.target.fetch(ref, run.folder) or [None]
        assert problem is None, "nothing is there any more, and that is no error"


def test_the_run_stage_works_over_ssh(
    two_hosts: list[Sshd], place: Path, pool: Pool, holding_of: Callable[[Run], Holding]
) -> None:
    config = config_of(two_hosts, place, output=str(place / "shared"))
    said: list[str] = []
    run = run_of(spec_of(place / "out", config), place, pool, said)
    holding = holding_of(run)
    outcome = run_workload(run, prepare(run, holding), holding)
    assert [attempt.end for attempt in outcome.attempts] == ["succeeded"]
    assert "[0] worker 0 of 2 on 2 devices" in said
    logs = sorted(file.name for file in (place / "out" / "run-1" / "logs").glob("*.log"))
    assert logs == ["worker-0000.log", "worker-0001.log"]


def test_several_workers_on_folders_of_their_own_are_refused(
    need_sshd: None, place: Path, pool: Pool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a host a file system of its own")
    own = place / "own"
    own.mkdir(mode=0o777)
    own.chmod(0o777)
    wrap = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        f'mount -t tmpfs -o mode=1777 tmpfs {own} && exec "$0" "$@"',
    ]
    with serve_ssh(2, wrap=wrap) as hosts:
        config = config_of(hosts, place, output=str(own / "runs"))
        run = run_of(spec_of(place / "out", config), place, pool)
        [problem] = [
            one for one in run.target.preflight(run.target.plan(run.spec)) if "one folder" in one.what
        ]
        assert problem.severity == "error"
        assert "--output gs://" in problem.fix
        assert "cannot be restored together" in problem.why
        alone = run_of(spec_of(place / "out", config.with_choices(1, None)), place, pool)
        told = alone.target.preflight(alone.target.plan(alone.spec))
        assert not [one for one in told if "folder" in one.what]


def test_preflight_tells_every_host_that_is_wrong(two_hosts: list[Sshd], place: Path, pool: Pool) -> None:
    good = config_of(two_hosts, place)
    broken = [
        good.hosts[0],
        good.hosts[1].model_copy(update={"port": 1}),
        good.hosts[1].model_copy(update={"key": "/no/key"}),
    ]
    config = good.model_copy(update={"hosts": tuple(broken), "python": "/no/python"})
    run = run_of(spec_of(place / "out", config), place, pool)
    told = "\n".join(str(problem) for problem in run.target.preflight(run.target.plan(run.spec)))
    assert "/no/python cannot be run" in told or "no/python" in told
    assert "nothing listens there" in told
    with pytest.raises((Unfit, BadInput, Exception), match="no/python|nothing listens"):
        run.target.image()
