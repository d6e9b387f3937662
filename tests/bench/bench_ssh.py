"""A hundred sshd of this machine: to connect and run nothing, and to bring new code, against what else does that."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

from tests.bench import ssh_peers, ssh_update
from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.cloud.sshd import Sshd, missing, serve_ssh
from tests.slowness import slowness

WORKERS_VARIABLE = "BENCH_SSH_WORKERS"
WORKERS = 100
FEW = 4

ROUNDS = (3, 5)
"""At least and at most; interleaved, so that both sides see the same weather."""

BUDGET_S = 180.0

CPU_S, MEMORY_MIB, FEW_S, ALLOWED_S = 0.010, 150.0, 3.0, 2.0


def measure() -> list[Bar]:
    """Returns the bars of connecting and of bringing code."""
    if reason := missing():
        raise RuntimeError(reason)
    workers = int(os.environ.get(WORKERS_VARIABLE) or WORKERS)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, serve_ssh(workers, homes=True) as hosts:
        Path(scratch).chmod(0o755)
        return [*_connecting(hosts, Path(scratch)), *_updating(hosts, Path(scratch))]


def _connecting(hosts: list[Sshd], scratch: Path) -> list[Bar]:
    python = ssh_peers.pyinfra_python()
    slow_by, ours, ssh, pyinfra, sshd_alone = [], [], [], [], []
    for _ in rounds("ssh connect", *ROUNDS, BUDGET_S):
        before, served = _slowness(), ssh_peers.processor_of(hosts)
        ours.append(ssh_peers.by_us(hosts))
        sshd_alone.append((ssh_peers.processor_of(hosts) - served) / (os.cpu_count() or 1))
        slow_by.append((before + _slowness()) / 2)
        ssh.append(ssh_peers.by_ssh(hosts, scratch))
        pyinfra.append(ssh_peers.by_pyinfra(python, hosts, scratch))
    walls = [cost.wall for cost in ours]
    used = [cost.processor / len(hosts) for cost in ours]
    allowed = [CPU_S * slow for slow in slow_by]
    what = f"connect to {len(hosts)} workers and run nothing"
    slow = sorted(slow_by)[len(slow_by) // 2]
    return [
        bar(f"{what} / one ssh process for each, {ssh_peers.AT_ONCE} at once", walls, ssh, at_most=1 / 3),
        bar(f"{what} / pyinfra", walls, [cost.wall for cost in pyinfra], at_most=1 / 3),
        bar(
            "what sshd takes of it, on all processors here: less is impossible / pyinfra",
            sshd_alone, [cost.wall for cost in pyinfra], at_most=math.inf,
        ),
        bar(
            "our processor time for a worker / pyinfra's",
            used, [cost.processor / len(hosts) for cost in pyinfra], at_most=math.inf, unit="ms",
        ),
        bar(
            f"our processor time for a worker / 10 ms × {slow:.1f}, by which this processor is slower",
            used, allowed, at_most=1.0, unit="ms",
        ),
        bar(
            "our memory at most / 150 MiB",
            [cost.memory for cost in ours], [MEMORY_MIB] * len(ours), at_most=1.0, unit="MiB",
        ),
    ]  # fmt: skip


def _updating(hosts: list[Sshd], scratch: Path) -> list[Bar]:
    origin = ssh_update.Origin(scratch / "origin", hosts[0].user)
    for host in hosts:
        ssh_update.furnish(host)
    ssh_update.by_us(hosts, origin)
    ssh_update.clone(hosts, origin)
    few = hosts[:FEW]
    slow_by, quick, ours, git = [], [], [], []
    for number in rounds("ssh update", *ROUNDS, BUDGET_S):
        slow_by.append(_slowness())
        origin.commit(2 * number + 1)
        quick.append(ssh_update.by_us(few, origin))
        sha = origin.commit(2 * number + 2)
        git.append(ssh_update.by_git(hosts, origin, sha))
        ours.append(ssh_update.by_us(hosts, origin))
    slow = sorted(slow_by)[len(slow_by) // 2]
    alone = sorted(git)[len(git) // 2]
    allowed = [1.3 * took + ALLOWED_S * slow for took, slow in zip(git, slow_by, strict=True)]
    return [
        bar(
            f"update {len(hosts)} workers / 1.3 × the same git commands here ({alone:.1f} s) + 2 s × {slow:.1f}",
            ours, allowed, at_most=1.0,
        ),
        bar(
            f"update {len(few)} workers / {FEW_S:g} s × {slow:.1f}",
            quick, [FEW_S * slow for slow in slow_by], at_most=1.0,
        ),
    ]  # fmt: skip


def _slowness() -> float:
    slow = slowness()
    print(f"this processor is {slow:.1f} times slower than the bars assume", file=sys.stderr, flush=True)
    return slow
