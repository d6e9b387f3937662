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
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

CALLS = ["patch jobs", "patch daemonsets", "delete daemonsets", "delete jobs"]
MOMENTS = ("kill_before", "kill_after")


def test_killed_at_every_call_it_leaves_nothing(tmp_path: Path) -> None:
    nodes = [{"pool": "cpu", "count": 1}, tpu_pool("np-0", *TPU.values(), hosts=2)]
    with KubernetesStandIn.started(tmp_path, nodes=nodes) as cluster:

        def pull(linger_s: float = -45.0) -> None:  # so it goes while somebody still waits for it, after 15 s
            api = Kubernetes(by_context("standin", str(cluster.kubeconfig)))
            cache_image(api, "registry.example/worker:1", limit_s=60.0, look_s=0.02, linger_s=linger_s)

        def made() -> dict[str, Any]:
            told: dict[str, Any] = cluster.inventory()["objects"]
            return {
                kind: names
                for kind, names in told.items()
                if kind in ("jobs.batch", "daemonsets.apps", "pods")
            }

        assert outcome(lambda: pull(60.0)) == 0
        seen = [" ".join(call.split()[:2]) for call in cluster.calls()]
        assert [call for call in seen if call.split()[0] in ("patch", "create", "delete")] == CALLS
        for number, call in sample([(2 * nth + at, call) for nth, call in enumerate(CALLS) for at in (0, 1)]):
            verb, kind = call.split()
            cluster.fault(verb=verb, kind=kind, action=MOMENTS[number % 2])
            assert outcome(pull) == -signal.SIGKILL, (call, number)
            cluster.fault()
            until(lambda: made() == {}, 60)
