"""`slicebench workload create`, which submits, beside `xpk workload create --dry-run`, which does not."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench import workload_peers
from tests.bench.bars import Bar, bar
from tests.bench.pace import rounds
from tests.cloud.kubernetes.certificates import make
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

ROUNDS = (7, 15)
"""At least and at most; interleaved, so that both sides see the same weather."""

BUDGET_S = 120.0
LESS_PROCESSOR, LESS_WALL = 5, 8

_TOKEN = "of-the-bench"


def measure() -> list[Bar]:
    """Returns the bars of processor and wall time. No pod starts: what is measured is the submitting.

    It is reached as real ones are: over TLS, with a token.
    """
    python = workload_peers.xpk_python()
    ours, theirs = [], []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        KubernetesStandIn.started(
            Path(scratch),
            certificates=str(make(Path(scratch) / "certificates")),
            token=_TOKEN,
            nodes=workload_peers.POOLS,
        ) as cluster,
    ):
        home = Path(scratch)
        workload_peers.furnish(cluster, home / "certificates" / "ca.pem", _TOKEN)
        workload_peers.by_us(cluster.kubeconfig, "warm", home)
        workload_peers.by_xpk(python, "warm", home)
        for number in rounds("workload", *ROUNDS, BUDGET_S):
            name = f"w{number}"
            ours.append(workload_peers.by_us(cluster.kubeconfig, name, home))
            theirs.append(workload_peers.by_xpk(python, name, home))
    what = "workload create, submitted / xpk workload create --dry-run"
    return [
        bar(
            f"{what}: processor",
            [one.processor for one in ours], [one.processor for one in theirs], at_most=1 / LESS_PROCESSOR,
        ),
        bar(
            f"{what}: wall", [one.wall for one in ours], [one.wall for one in theirs], at_most=1 / LESS_WALL
        ),
    ]  # fmt: skip
