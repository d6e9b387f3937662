"""Makes runs on real sshd of this machine for tests: small suites, stand-in supervisors, holdings."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.contract.job import Deadlines
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.storage import open_folder
from tasks.config.home import hosts_folder, ledger_folder, scratch_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.ssh_target import SshTargetConfig
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Fenced, Holding
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import State
from tasks.stages.context import Run
from tasks.stages.upload import upload
from tasks.targets.ssh import SshTarget
from tasks.targets.types import Image, Uploaded, WorkloadRef
from tests.cloud.sshd import Sshd, a_user
from tests.tasks.targets.local_runs import STANDIN, point
from tests.waiting import PATIENCE_S


def python_of(user: str) -> str:
    """Returns a Python that `user` can run here, new enough for workers."""
    asked = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    for python in (sys.executable, "/usr/bin/python3"):
        if _can(user, python, *asked):
            return python
    pytest.skip(f"user {user} has no Python 3.11 here: apt-get install python3")


def python_with_jax() -> tuple[str, str]:
    """Returns a user of the hosts and a Python with all that workers need, which that user can run."""
    user = a_user()
    can = _can(user, sys.executable, "-c", "import jax")
    return (user if can else getpass.getuser()), sys.executable


def _can(user: str, *command: str) -> bool:
    """Whether a command ends well for a user. What root runs it by need not be on the PATH, as sshd need not."""
    sbin = shutil.which("runuser", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    prefix = [sbin or "runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    return subprocess.run([*prefix, *command], capture_output=True, check=False, cwd="/").returncode == 0


@contextmanager
def host_folder() -> Iterator[Path]:
    """A folder that the user of the hosts owns, with the stand-in in it."""
    folder = Path(
        subprocess.check_output(["mktemp", "-d", "/tmp/slicebench-hosts-XXXXXX"], text=True).strip()
    )
    folder.chmod(0o777)
    shutil.copy(STANDIN, folder / "standin.py")
    yield folder
    shutil.rmtree(folder)


def config_of(hosts: Sequence[Sshd], folder: Path, **more: object) -> SshTargetConfig:
    fields = {
        "kind": "ssh",
        "user": hosts[0].user,
        "key": str(hosts[0].key),
        "python": more.get("python") or python_of(hosts[0].user),
        "folder": str(folder / "home"),
        "hosts": [{"address": h.address, "port": h.port, "host_key": h.pin} for h in hosts],
        **more,
    }
    return SshTargetConfig.model_validate(fields)


def spec_of(
    output: Path | str, config: SshTargetConfig, run_id: str = "run-1", workload: str = "succeed"
) -> RunSpec:
    return RunSpec(
        run_id=run_id,
        suite_name="tiny",
        suite_path="tiny.yaml",
        suite_text="suite_name: tiny\n",
        points=[point(devices=4)],
        num_repeats=1,
        target_name="hosts",
        target=config,
        source=SourceSpec(),
        output=str(output),
        keep="never",
        deadlines=Deadlines(),
        env={"WORKLOAD": workload},
    )


def run_of(
    spec: RunSpec, folder: Path, pool: Pool, said: list[str] | None = None, lease_s: float = 60.0
) -> Run:
    """Returns a run whose supervisors are the stand-in in `folder`."""
    assert isinstance(spec.target, SshTargetConfig)
    target = SshTarget(
        spec.target,
        pool,
        AddressBook(hosts_folder()),
        supervisor=lambda python, job: (python, str(folder / "standin.py"), job),
        lease_s=lease_s,
    )
    place = open_folder(f"{spec.output}/{spec.run_id}")
    return Run(spec, place, target, (said if said is not None else []).append)


def hold(run: Run) -> Holding:
    ledger = DirectoryLedger(ledger_folder())
    inventories = open_inventories(ledger, scratch_folder())
    # The hosts are this machine: its own inventories would hide what those of the hosts do not find.
    elsewhere = {kind: one for kind, one in inventories.items() if kind not in ("process", "directory")}
    return claim(ledger, elsewhere, run.spec.run_id, run.spec.run_id)


def image_of(run: Run) -> Image:
    assert isinstance(run.spec.target, SshTargetConfig)
    return Image("venv", "test", str(run.spec.target.python))


def wait_for_hosts(pool: Pool, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a pool wait so long for each step from now on: a moment for hosts that are frozen, for others patiently."""
    monkeypatch.setattr("tasks.cloud.ssh_link.IO_S", seconds)
    monkeypatch.setattr(pool, "_connect_s", seconds)
    for place in pool._places.values():
        if place.link is not None and place.link._sftp is not None:
            place.link._sftp.get_channel().settimeout(seconds)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(connect_s=PATIENCE_S)
    yield pool
    pool.close()


@pytest.fixture
def place() -> Iterator[Path]:
    with host_folder() as folder:
        yield folder


@pytest.fixture
def holding_of() -> Iterator[Callable[[Run], Holding]]:
    """Holds runs, and releases what the test left."""
    held: list[Holding] = []

    def take(run: Run) -> Holding:
        held.append(hold(run))
        return held[-1]

    yield take
    for holding in held:
        if holding.lease.state not in (State.GONE, State.LEAKED):
            try:
                holding.release("the test is over")
            except Fenced:
                continue


def prepare(run: Run, holding: Holding) -> Uploaded:
    workers = run.target.acquire(run.target.plan(run.spec), holding)
    return upload(run, workers, image_of(run))


def pids(ref: WorkloadRef) -> list[int]:
    return [int(uid.split("@")[0]) for uid in ref.uid.split()]
