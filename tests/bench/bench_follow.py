"""Following on Kubernetes: a thousand logs in one process, and how soon the end of a workload is seen."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_follow import follow
from tasks.cloud.kubernetes_kinds import JOB_SET, Object
from tasks.cloud.kubernetes_told import Line
from tasks.cloud.kubernetes_watch import Change
from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.bench.peers import ROOT
from tests.cloud.authority import Authority
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.slowness import slowness

PODS, LINES_PER_S, SECONDS = 1_000, 10_000.0, 15.0

MEMORY_MIB = 200.0

SEEN_S = 0.2

ASKED_S = 5.0
"""How often xpk asks."""

ENDS = (20, 60)
"""Workloads at least and at most."""

BUDGET_S = 60.0

_LAST = """
import time
time.sleep(0.3)
print("last", time.time(), flush=True)
"""


def measure() -> list[Bar]:
    """Returns four bars: whether it keeps up, its memory, when an end is seen, and when it would be by asking again and
    again. Raises when a line is not right.
    """
    return [*thousand(PODS, LINES_PER_S, SECONDS), *end_seen(*ENDS)]


def thousand(pods: int, per_second: float, seconds: float) -> list[Bar]:
    """Follows as many pods, over TLS, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        Authority().furnish(folder)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.many_pods", str(pods), str(per_second), str(seconds), scratch],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stdout
            url = server.stdout.readline().strip()
            told = _followed(url, folder / "ca.pem")
            wrote_s = float(server.stdout.readline())
        finally:
            server.kill()
            server.wait()
    print(told, file=sys.stderr, flush=True)
    if told["lines"] != int(per_second * seconds) or told["wrong"] or told["complete"] != pods:
        raise RuntimeError(f"lines were lost, repeated or out of order: {told}")
    what = f"{pods:,} pods, {per_second:,.0f} lines/s"
    return [
        bar(
            f"{what}: seconds until all lines are read / are written",
            [told["took_s"]],
            [wrote_s],
            at_most=1.1,
        ),
        bar(
            f"{what}: memory / {MEMORY_MIB:g} MiB",
            [told["memory_mib"]],
            [MEMORY_MIB],
            at_most=1.0,
            unit="MiB",
        ),
    ]


def _followed(url: str, authority: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.follow_pods", url, str(authority)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def end_seen(least: int, most: int) -> list[Bar]:
    """Runs workloads on the stand-in, while half of this machine is busy: from a pod's last word until its JobSet is
    seen to have ended, which includes what kubelet and controllers take. Each is also asked for every few seconds.
    """
    slow = slowness()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    pools = [tpu_pool("np-0", *TPU.values(), hosts=4)]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as scratch,
            KubernetesStandIn.started(Path(scratch), nodes=pools) as cluster,
            ThreadPoolExecutor(most) as askers,
        ):
            kube = Kubernetes(by_context("standin", str(cluster.kubeconfig)))
            numbers = rounds("end seen", least, most, BUDGET_S)
            ends = [_end_seen(kube, f"end-{number}", askers) for number in numbers]
            late = [seen - last for last, seen, _ in ends]
            asked = [seen.result() - last for last, _, seen in ends]
    finally:
        busy.kill()
        busy.wait()
    p95 = float(np.quantile(late, 0.95))
    print(
        {"median_s": float(np.median(late)), "p95_s": p95, "most_s": max(late)}, file=sys.stderr, flush=True
    )
    what = "end of a workload seen"
    return [
        bar(f"{what}, 95 of 100 within / {SEEN_S:g} s × {slow:.1f}", [p95], [SEEN_S * slow], at_most=1.0, unit="ms"),
        bar(f"{what} / by asking every {ASKED_S:g} s", late, asked, at_most=math.inf, unit="ms"),
    ]  # fmt: skip


def _end_seen(kube: Kubernetes, name: str, askers: ThreadPoolExecutor) -> tuple[float, float, Future[float]]:
    """Returns when a workload's last word was said, when its end was seen, and when it will be by asking."""
    made = kube.create(JOB_SET, jobset(name, _LAST, slices=1))
    asking = askers.submit(_asked, kube, name)
    seen, last = 0.0, 0.0
    for one in follow(kube.access, "default", name, made["metadata"]["uid"], until=_ended):
        if isinstance(one, Line):
            last = max(last, float(one.text.split()[1]))
        elif isinstance(one, Change) and _ended(one):
            seen = seen or time.time()
    return last, seen, asking


def _asked(kube: Kubernetes, name: str) -> float:
    """Asks from some moment on, as xpk does, until the workload has ended; returns when, and deletes it."""
    time.sleep(random.uniform(0.0, ASKED_S))
    while not _over(kube.get(JOB_SET, name)):
        time.sleep(ASKED_S)
    seen = time.time()
    kube.delete(JOB_SET, name)
    return seen


def _ended(change: Change) -> bool:
    return change.kind == JOB_SET and _over(change.object)


def _over(found: Object) -> bool:
    return "terminalState" in (found.get("status") or {})
