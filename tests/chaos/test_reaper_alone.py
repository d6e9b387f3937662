"""The machine that launched runs is gone for good, with all of Prefect; only the reaper's container is left."""

# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tasks.cloud.storage import open_folder
from tasks.leases.lease import Lease, State, is_lock
from tasks.leases.ledger import Ledger
from tasks.leases.opening import open_ledger
from tests.chaos.driver import soon_enough, took_s
from tests.chaos.test_kill_prefect import bystander
from tests.chaos.test_kill_tpu_run import others_of
from tests.cloud.sshd import Sshd, missing, serve_ssh, target_yaml
from tests.cloud.tpu.leasing import ZONE
from tests.cloud.tpu.running import Cloud
from tests.system.prefect_station import PATIENCE_S, ROOT, Station, wait_for
from tests.system.suites import lay_suite
from tests.tasks.leases.container import enter, lay_image
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import host_folder, python_with_jax

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

ON_TPUS, ON_HOSTS = "on-tpus", "on-hosts"
RUNS = (ON_TPUS, ON_HOSTS)


@pytest.fixture
def ledger(gcs_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("SLICEBENCH_LEDGER", f"{gcs_bucket}/ledger")
    return open_ledger(f"{gcs_bucket}/ledger")


@pytest.fixture
def place() -> Iterator[Path]:
    with host_folder() as folder:
        yield folder


@pytest.fixture
def targets(place: Path, tpu_cloud: Cloud) -> Iterator[dict[str, str]]:
    """Files of two targets, by the runs that go there: a TPU VM that is made, and a host that was there before."""
    if reason := missing():
        pytest.skip(reason)
    user, python = python_with_jax()
    with serve_ssh(2, user=user) as machines, serve_ssh(1, user=user) as [host]:
        make_ready(tpu_cloud, machines)
        on_tpus = {
            "kind": "tpu_vm", "type": "v6e-1", "zones": [ZONE], "platform": "cpu", "user": user, "python": python,
            "ssh_port": machines[0].port, "folder": str(place / ON_TPUS),
        }  # fmt: skip
        on_hosts = yaml.safe_load(target_yaml([host], python)) | {"folder": str(place / ON_HOSTS)}
        files = {}
        for name, target in ((ON_TPUS, on_tpus), (ON_HOSTS, on_hosts)):
            files[name] = str(place / f"{name}.yaml")
            Path(files[name]).write_text(yaml.safe_dump(target))
        yield files


@pytest.fixture
def station(ledger: Ledger, tpu_cloud: Cloud, tmp_path: Path) -> Iterator[Station]:
    """What is to be lost; where it was not, it and what it left go at the end of the test."""
    home = tmp_path / "laptop"
    home.mkdir()
    station = Station(home)
    yield station
    if station.up:
        station.close()
    for pid in [pid for run_id in RUNS for pid in alive_under(f"{run_id}-e1")]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_what_runs_left_is_given_back_within_15_s_of_the_end_of_their_leases(
    station: Station,
    targets: dict[str, str],
    ledger: Ledger,
    tpu_cloud: Cloud,
    place: Path,
    bystander: subprocess.Popen[bytes],
    tmp_path: Path,
    gcs_bucket: str,
) -> None:
    image = lay_image(tmp_path / "app")
    others = others_of(tpu_cloud, f"{ON_TPUS}-e1")
    commands = [begin(station, run_id, targets[run_id], place, gcs_bucket) for run_id in RUNS]
    for run_id in RUNS:
        wait_for(lambda run_id=run_id: measures(run_id, gcs_bucket))  # type: ignore[misc]
    lose(station, commands)
    assert len(tpu_cloud.inventory()) > len(others)
    assert all(alive_under(f"{run_id}-e1") for run_id in RUNS), "what is on the hosts lives on for a while"

    wait_for(lambda: all(expired(lease) for lease in leases(ledger)))
    began = time.monotonic()
    reaped = enter(image, tmp_path / "nobody", "--ledger", ledger.uri, "--watch", "2")
    took = took_s(began)
    assert reaped.code == 0, reaped.said
    assert tpu_cloud.inventory() == others
    assert [alive_under(f"{run_id}-e1") for run_id in RUNS] == [[], []]
    assert soon_enough([took])
    assert bystander.poll() is None
    # What only that machine can look at is named, and waits for it: a folder with a key; folders on hosts.
    assert reaped.did == {f"{ON_TPUS}-e1": "released in part", f"{ON_HOSTS}-e1": "released in part"}, (
        reaped.said
    )
    left = {lease.run_id: {ref.kind for ref in lease.resources if ref.ours} for lease in leases(ledger)}
    assert left[ON_TPUS] == {"directory"}
    assert "host_directory" in left[ON_HOSTS]

    # It comes back after all.
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "reap"],
        cwd=ROOT, env=station.environment, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {lease.state for lease in leases(ledger)} == {State.GONE}
    assert list((place / ON_HOSTS / "runs").iterdir()) == []
    assert not [folder for folder in (station.home / "scratch").iterdir() if folder.name in RUNS]
    assert tpu_cloud.inventory() == others


def make_ready(cloud: Cloud, machines: list[Sshd]) -> None:
    """Makes hosts those of the next TPU VMs: nobody gets in there but by the key that is pushed."""
    keys = machines[0].key.with_suffix(".pub")
    keys.write_text("")
    with cloud.store.changing() as world:
        world["hosts"] = [
            {"address": one.address, "host_key": one.pin, "authorized_keys": str(keys)} for one in machines
        ]


def begin(station: Station, run_id: str, target: str, place: Path, bucket: str) -> subprocess.Popen[str]:
    """Starts a run that would wait for ever for what lets it go."""
    suite = lay_suite(station.home / "suites" / run_id, "patient", go=str(place / "go"))
    url = os.environ["STORAGE_EMULATOR_HOST"]
    emulator = {
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
    words = ["--target", target, "--output", f"{bucket}/runs"]
    for name, value in emulator.items():
        words += ["--env", f"{name}={value}"]
    return station.begin(run_id, str(suite), *words)


def measures(run_id: str, bucket: str) -> bool:
    """Whether the worker of a run is at work, by its log in the bucket."""
    log = open_folder(f"{bucket}/runs/{run_id}").read("run.log") or b""
    return b"the worker has joined" in log


def lose(station: Station, commands: list[subprocess.Popen[str]]) -> None:
    """Ends the launching machine, as far as processes are it: commands, server, workers, flows, all at once."""
    victims = [psutil.Process(pid) for pid in (station.process.pid, *(command.pid for command in commands))]
    victims += psutil.Process(station.process.pid).children(recursive=True)
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                act(victim)
    station.process.wait()
    for command in commands:
        command.communicate()


def leases(ledger: Ledger) -> list[Lease]:
    """Returns the leases of the runs."""
    return [lease for lease in ledger.listing().leases if not is_lock(lease)]


def expired(lease: Lease) -> bool:
    return lease.expires_at is not None and lease.expires_at <= time.time()
