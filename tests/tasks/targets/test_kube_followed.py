"""What is told of a JobSet while a watch follows it through what recordings lack: preempted, and started again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_watch import Change, of_job_set, watch
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import Object, uid_of
from tests.cloud.kubernetes.client import JOBSETS, WORKLOADS, Plain
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.tasks.targets.kube_replay import Store
from tests.waiting import PATIENCE_S, until

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GATED = "import os, time\nwhile not os.path.exists('{gate}'):\n    time.sleep(0.05)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """One slice of two hosts, in one queue, with two priorities."""
    pools = [tpu_pool("np-0", *TPU.values(), hosts=2)]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=pools) as started:
        api = Plain(started.url)
        api.post(f"{_KUEUE}/resourceflavors", _kueue("ResourceFlavor", "f", {"nodeLabels": TPU}))
        quota = {"name": "google.com/tpu", "nominalQuota": "8"}
        group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": "f", "resources": [quota]}]}
        preemption = {"withinClusterQueue": "LowerPriority"}
        api.post(
            f"{_KUEUE}/clusterqueues",
            _kueue(
                "ClusterQueue",
                "cq",
                {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption},
            ),
        )
        api.post(
            f"{_KUEUE}/namespaces/default/localqueues", _kueue("LocalQueue", "q", {"clusterQueue": "cq"})
        )
        for name, value in (("low", 250), ("high", 750)):
            api.post(
                f"{_KUEUE}/workloadpriorityclasses", {**_kueue("WorkloadPriorityClass", name), "value": value}
            )
        yield started


def _kueue(kind: str, name: str, spec: Object | None = None) -> dict[str, Any]:
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    return made | ({"spec": spec} if spec else {})


def _queued(name: str, priority: str, gate: Path) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/priority-class": priority}
    return jobset(
        name,
        GATED.format(gate=gate),
        slices=1,
        queue="q",
        labels=labels,
        pod={"terminationGracePeriodSeconds": 1},
    )


class Told:
    """Follows a JobSet in a thread, and keeps what became news."""

    def __init__(self, cluster: KubernetesStandIn, made: Object) -> None:
        self.store = Store(jobsets={uid_of(made): made})
        self.news: list[str] = []
        self._access = by_context("standin", str(cluster.kubeconfig))
        self._queries = of_job_set("default", str(made["metadata"]["name"]), uid_of(made))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for change in watch(self._access, self._queries):
            if not isinstance(change, Change):
                continue
            line = {"type": change.type, "kind": change.kind.name, "object": change.object}
            told = self.store.take(line)
            self.news += [f"{found.state} {found.reason} #{found.attempt}" for _, found in told]
            if self.found.over:
                return

    @property
    def found(self) -> Found:
        return next(iter(self.store.found.values()))

    def end(self) -> list[str]:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), self.news
        return self.news

    def sees(self, what: str) -> None:
        until(lambda: any(one.startswith(what) for one in self.news))


def test_one_that_is_preempted_waits_and_starts_again_as_another_attempt(
    cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    api = Plain(cluster.url)
    low = Told(cluster, api.post(JOBSETS, _queued("low", "low", tmp_path / "low")))
    low.sees("RUNNING Started")
    high = Told(cluster, api.post(JOBSETS, _queued("high", "high", tmp_path / "high")))
    low.sees("PREEMPTED Preempted")
    high.sees("RUNNING Started")
    assert low.found.state == KubeState.PREEMPTED
    (tmp_path / "high").touch()
    assert high.end()[-2:] == ["RUNNING Started #1", "SUCCEEDED AllJobsCompleted #1"]
    low.sees("RUNNING Recovered #2")
    (tmp_path / "low").touch()
    told = low.end()
    assert told[-1] == "SUCCEEDED AllJobsCompleted #2"
    states = [one.split()[0] for one in told]
    # How much of the beginning is seen depends on when the watch began; what is seen is in order.
    assert list(dict.fromkeys(states[: states.index("PREEMPTED")])) in (
        ["QUEUED", "STARTING", "RUNNING"],
        ["STARTING", "RUNNING"],
        ["QUEUED", "RUNNING"],
        ["RUNNING"],
    )
    again = states[states.index("PREEMPTED") :]
    assert list(dict.fromkeys(again)) in (
        ["PREEMPTED", "STARTING", "RUNNING", "SUCCEEDED"],
        ["PREEMPTED", "STARTING", "PROVISIONING", "RUNNING", "SUCCEEDED"],  # old pods still hold their chips
    )
    found = low.found
    assert (found.restarts, found.evictions, found.cause) == (0, 1, None)
    for name in ("low", "high"):
        api.delete(f"{JOBSETS}/{name}")
    api.eventually(WORKLOADS, lambda told: not told["items"])
