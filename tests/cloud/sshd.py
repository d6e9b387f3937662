"""Real sshd on 127.0.1.1, 127.0.1.2 …, each with a host key of its own: hosts to connect to, for tests and by hand."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.waiting import PATIENCE_S

PACKAGE = "openssh-server"
BENCH_USER = "bench"
_CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {authorized}
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
AllowAgentForwarding yes
PrintMotd no
PrintLastLog no
UseDNS no
Subsystem sftp internal-sftp
{more}
"""


@dataclass
class Sshd:
    """One running sshd. `pin` is its public host key as known_hosts writes it, `key` the file that opens it."""

    address: str
    port: int
    user: str
    folder: Path
    key: Path
    process: subprocess.Popen[bytes]

    @property
    def home(self) -> Path:
        """$HOME of whoever logs in, where it was served with `homes`."""
        return self.folder / "home"

    @property
    def pin(self) -> str:
        kind, data, *_ = (self.folder / "host_key.pub").read_text().split()
        return f"{kind} {data}"

    def sessions(self) -> list[psutil.Process]:
        """Returns the processes of the connections it has now, the innermost last."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [one for one in psutil.Process(self.process.pid).children(recursive=True)
                    if one.name().startswith("sshd")]  # fmt: skip
        return []

    def drop(self) -> None:
        """Breaks all connections, as a link does; what was started over them lives on. New ones are welcome."""
        held: list[psutil.Process] = []
        # Just after a login sshd makes one more process, which would outlive those that are seen, and hold the link.
        while more := [session for session in self.sessions() if session not in held]:
            for session in more:
                with contextlib.suppress(psutil.NoSuchProcess):
                    session.suspend()
            held += more
        for session in held:
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()

    def freeze(self) -> None:
        """Lets connections stand without an answer, as a host does that lost power, and answers no new one."""
        for process in (psutil.Process(self.process.pid), *self.sessions()):
            process.suspend()

    def thaw(self) -> None:
        """Takes `freeze` back."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (*self.sessions(), psutil.Process(self.process.pid)):
                process.resume()

    def stop(self) -> None:
        """Goes down for good, connections included. Once is enough."""
        self.thaw()
        sessions = self.sessions()
        self.process.kill()
        self.process.wait()
        for session in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()

    def log(self) -> str:
        return (self.folder / "log").read_text()


def missing() -> str:
    """Returns why no sshd can be started here, or nothing."""
    if _sshd() is None or shutil.which("ssh-keygen") is None:
        return f"no sshd here: apt-get install {PACKAGE}"
    return ""


def a_user() -> str:
    """Returns whom to log in as: as root a user `bench` with /bin/sh, made when missing, else who we are."""
    if os.geteuid() != 0:
        return getpass.getuser()
    try:
        pwd.getpwnam(BENCH_USER)
    except KeyError:
        subprocess.run(["useradd", "-m", "-s", "/bin/sh", BENCH_USER], check=False, capture_output=True)
        subprocess.run(["usermod", "-p", "*", BENCH_USER], check=True, capture_output=True)
    return BENCH_USER


@contextmanager
def serve_ssh(
    count: int,
    *,
    user: str | None = None,
    config: Sequence[str] = (),
    wrap: Sequence[str] = (),
    homes: bool = False,
) -> Iterator[list[Sshd]]:
    """Runs `count` sshd; yields them. `config` are more lines of sshd_config; `wrap` a command that runs sshd.

    With `homes`, $HOME is a folder of its own on each; it goes with the sshd.
    """
    user = user or a_user()
    folder = Path(tempfile.mkdtemp(prefix="slicebench-sshd-"))
    folder.chmod(0o755)  # sshd reads authorized keys as the user who logs in
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    key = folder / "id_ed25519"
    _keygen(key)
    port = _free_port()
    started: list[Sshd] = []
    try:
        for number in range(1, count + 1):
            more = [*config, f"SetEnv HOME={_make_home(folder, number, user)}"] if homes else config
            started.append(_start(folder, number, port, user, key, more, wrap))
        for sshd in started:
            _wait_until_up(sshd)
        yield started
    finally:
        for sshd in started:
            sshd.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    folder: Path, number: int, port: int, user: str, key: Path, config: Sequence[str], wrap: Sequence[str]
) -> Sshd:
    own = folder / f"host-{number}"
    own.mkdir(exist_ok=True)
    _keygen(own / "host_key")
    address = f"127.0.{1 + number // 250}.{number % 250}"
    text = _CONFIG.format(
        address=address, port=port, folder=own, authorized=f"{key}.pub", more="\n".join(config)
    )
    (own / "sshd_config").write_text(text)
    sshd = _sshd()
    assert sshd is not None
    with (own / "log").open("wb") as log:
        process = subprocess.Popen(
            [*wrap, sshd, "-D", "-e", "-f", str(own / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Sshd(address, port, user, own, key, process)


def _make_home(folder: Path, number: int, user: str) -> Path:
    home = folder / f"host-{number}" / "home"
    home.mkdir(parents=True)
    shutil.chown(home, user)
    return home


def _keygen(file: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "slicebench-test", "-f", str(file)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _sshd() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_up(sshd: Sshd) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and sshd.process.poll() is None:
        try:
            socket.create_connection((sshd.address, sshd.port), timeout=5).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise RuntimeError(f"sshd did not come up: {sshd.log()}")


@pytest.fixture(scope="session")
def need_sshd() -> None:
    """Skips where there is no sshd."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def two_hosts(need_sshd: None) -> Iterator[list[Sshd]]:
    """Two sshd, shared by the tests of a module: for those that break nothing."""
    with serve_ssh(2) as hosts:
        yield hosts


@pytest.fixture
def own_host(need_sshd: None) -> Iterator[Sshd]:
    """One sshd for a test that breaks it."""
    with serve_ssh(1) as [host]:
        yield host


def target_yaml(hosts: Sequence[Sshd], python: str) -> str:
    """Returns a target file for these hosts, each pinned by its key."""
    lines = [f"kind: ssh\nuser: {hosts[0].user}\nkey: {hosts[0].key}\npython: {python}\nhosts:"]
    lines += [f'  - {{address: {h.address}, port: {h.port}, host_key: "{h.pin}"}}' for h in hosts]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    """`python -m tests.cloud sshd -n 4`: prints a target file, and serves until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.cloud sshd")
    parser.add_argument("-n", type=int, default=2, help="how many hosts")
    parser.add_argument("--user", help=f"whom to log in as (as root: {BENCH_USER})")
    parser.add_argument("--python", default=sys.executable, help="Python that the workers run")
    asked = parser.parse_args(argv)
    if reason := missing():
        print(reason, file=sys.stderr)
        return 3
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with serve_ssh(asked.n, user=asked.user) as hosts, contextlib.suppress(KeyboardInterrupt):
        print(target_yaml(hosts, asked.python), flush=True)
        print("serving; end with Ctrl-C", file=sys.stderr)
        signal.pause()
    return 0
