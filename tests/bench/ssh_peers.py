"""What else connects to many hosts and runs a command there: OpenSSH, a process for each, and pyinfra."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.peers import ROOT, bench_home, install
from tests.cloud.sshd import Sshd

AT_ONCE = 32
PYINFRA = "pyinfra==3.10.0"

_OURS = """
import sys
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint
lines = [line.split("\\t") for line in sys.stdin.read().splitlines()]
hosts = [Endpoint(address, user, int(port), (key,), pin) for address, user, port, key, pin in lines]
pool = Pool()
told = pool.each(hosts, lambda link: link.run(["true"]).code)
pool.close()
sys.exit(list(told.values()) != [0] * len(hosts))
"""


@dataclass(frozen=True)
class Cost:
    """What a process took from its start to its end: seconds, seconds of processor, and MiB at most."""

    wall: float
    processor: float
    memory: float


def processor_of(hosts: Sequence[Sshd]) -> float:
    """Returns the seconds of processor that these sshd have taken so far, with the connections that have ended."""
    times = [psutil.Process(one.process.pid).cpu_times() for one in hosts]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


def by_us(hosts: Sequence[Sshd]) -> Cost:
    """Connects to all hosts with our pool and runs `true`, in a Python of its own whose start counts as well."""
    lines = "".join(f"{one.address}\t{one.user}\t{one.port}\t{one.key}\t{one.pin}\n" for one in hosts)
    return _cost([sys.executable, "-c", _OURS], lines, {"PYTHONPATH": str(ROOT)})


def by_pyinfra(python: Path, hosts: Sequence[Sshd], scratch: Path) -> Cost:
    """Does the same with pyinfra, from the start of its command to the end."""
    known = known_hosts(hosts, scratch)
    told = [
        (
            one.address,
            {
                "ssh_port": one.port,
                "ssh_user": one.user,
                "ssh_key": str(one.key),
                "ssh_known_hosts_file": str(known),
                "ssh_strict_host_key_checking": "yes",
                "ssh_allow_agent": False,
                "ssh_look_for_keys": False,
            },
        )
        for one in hosts
    ]
    (scratch / "inventory.py").write_text(f"hosts = {told!r}\n")
    command = [str(python.with_name("pyinfra")), "-y", str(scratch / "inventory.py"), "exec", "--", "true"]
    return _cost(command, "", {"HOME": str(scratch)})


def by_ssh(hosts: Sequence[Sshd], scratch: Path) -> float:
    """Returns the seconds that as many `ssh` take, so many at once, one for each host."""
    known = known_hosts(hosts, scratch)
    options = ("BatchMode=yes", "IdentitiesOnly=yes", f"UserKnownHostsFile={known}", "LogLevel=ERROR")
    words = [word for option in options for word in ("-o", option)]

    def run(host: Sshd) -> None:
        command = ["ssh", "-F", "none", *words, "-i", str(host.key), "-p", str(host.port)]
        command += [f"{host.user}@{host.address}", "true"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    return at_once(run, hosts)


def at_once(task: Callable[[Sshd], None], hosts: Sequence[Sshd]) -> float:
    """Does something for all hosts, so many at once; returns the seconds that took."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        begin = time.monotonic()
        for _ in threads.map(task, hosts):
            pass
        return time.monotonic() - begin


def known_hosts(hosts: Sequence[Sshd], scratch: Path) -> Path:
    """Writes a known_hosts with all of them; returns it."""
    file = scratch / "known_hosts"
    file.write_text("".join(f"[{one.address}]:{one.port} {one.pin}\n" for one in hosts))
    return file


def pyinfra_python() -> Path:
    """Returns the Python of a venv with pyinfra and nothing of ours; makes it once."""
    venv = bench_home() / f"{PYINFRA.replace('==', '-')}-py{sys.version_info.minor}"
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        install(venv, [PYINFRA])
        (venv / "complete").touch()
    return python


def _cost(command: Sequence[str], stdin: str, more: dict[str, str]) -> Cost:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    begin = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        cwd=ROOT, env=clean | more, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(stdin)
        process.stdin.close()
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:200]} failed: {told[-2000:]}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
