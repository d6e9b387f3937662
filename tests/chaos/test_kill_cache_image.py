"""Pull the plug at every mutating call by which an image is pulled onto nodes: what pulls goes by itself, unasked."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.stages.cluster_cache import cache_image
from tests.chaos.driver import outcome, sample
from tests.cloud.kubernetes.client import JOBS, Plain
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

CALLS = ["patch jobs", "patch daemonsets", "delete daemonsets", "delete jobs"]
MOMENTS = ("kill_before", "kill_after")
LIMIT_S = LINGER_S = 120.0
"""Longer than pulling takes on any machine: what was killed is left to itself until then."""


def test_killed_at_every_call_it_leaves_nothing(tmp_path: Path) -> None:
    nodes = [{"pool": "cpu", "count": 1}, tpu_pool("np-0", *TPU.values(), hosts=2)]
    with KubernetesStandIn.started(tmp_path, nodes=nodes) as cluster:
        plain = Plain(cluster.url)

        def pull() -> None:
            api = Kubernetes(by_context("standin", str(cluster.kubeconfig)))
            cache_image(api, "registry.example/worker:1", limit_s=LIMIT_S, look_s=0.02, linger_s=LINGER_S)

        def let_time_pass() -> None:
            """Puts the cluster's clock on, which its Jobs do not see until they are looked at again."""
            until(lambda: all(one.get("status", {}).get("startTime") for one in plain.get(JOBS)["items"]))
            cluster.tell("skew", seconds=LIMIT_S + LINGER_S)
            for name in plain.names(JOBS):
                noted = {"metadata": {"annotations": {"looked": "at"}}}
                plain.http.patch(
                    f"{JOBS}/{name}", json=noted, headers={"content-type": "application/merge-patch+json"}
                )

        def made() -> dict[str, Any]:
            told: dict[str, Any] = cluster.inventory()["objects"]
            return {
                kind: names
                for kind, names in told.items()
                if kind in ("jobs.batch", "daemonsets.apps", "pods")
            }

        assert outcome(pull) == 0
        seen = [" ".join(call.split()[:2]) for call in cluster.calls()]
        assert [call for call in seen if call.split()[0] in ("patch", "create", "delete")] == CALLS
        for number, call in sample([(2 * nth + at, call) for nth, call in enumerate(CALLS) for at in (0, 1)]):
            verb, kind = call.split()
            cluster.fault(verb=verb, kind=kind, action=MOMENTS[number % 2])
            assert outcome(pull) == -signal.SIGKILL, (call, number)
            cluster.fault()
            let_time_pass()
            until(lambda: made() == {})
            cluster.tell("skew", seconds=0)
