"""kubectl, where it is installed, works with the stand-in for Kubernetes: a check of it that knows nothing of us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.kubernetes.manifests import config_map, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until

_ASKS_THE_SERVER = 27
"""The minor version from which on kubectl lets the server look at fields."""
KUBECTL = shutil.which("kubectl")

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl here: apt-get install kubernetes-client"),
]


class Kubectl:
    """Calls kubectl on one cluster; it reads and writes no other configuration or cache."""

    def __init__(self, cluster: KubernetesStandIn, home: Path) -> None:
        self._cluster, self._home = cluster, home

    @cached_property
    def lenient(self) -> tuple[str, ...]:
        """The flag by which older ones leave it to the server to look at fields: they would need its whole schema."""
        version = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        return ("--validate=false",) if int(version["minor"].rstrip("+")) < _ASKS_THE_SERVER else ()

    def __call__(self, *words: str, given: Any = None, code: int = 0) -> str:
        """Returns what it prints; `given` is what it reads with `-f -`."""
        command = [str(KUBECTL), "--kubeconfig", str(self._cluster.kubeconfig), *words]
        done = subprocess.run(
            command, input=json.dumps(given) if given else None, capture_output=True, text=True, timeout=600,
            env={"PATH": os.environ["PATH"], "HOME": str(self._home)}, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("kubectl")
    nodes = [{"pool": "cpu", "count": 2}]
    with KubernetesStandIn.started(folder, nodes=nodes) as cluster:
        yield Kubectl(cluster, folder)


def _workload(name: str, code: str) -> dict[str, Any]:
    """Returns a JobSet that any node takes."""
    made = jobset(name, code, slices=1, pods=1)
    made["metadata"].pop("annotations", None)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod.pop("nodeSelector"), pod.pop("tolerations", None)
    pod["containers"][0].pop("resources")
    return made


def test_it_applies_waits_reads_and_deletes_a_workload(kubectl: Kubectl) -> None:
    runs = _workload("runs", "print('it runs')")
    assert "jobset.jobset.x-k8s.io/runs created" in kubectl("apply", *kubectl.lenient, "-f", "-", given=runs)
    # As on a real cluster: kubectl sends the whole list, without what JobSet's webhook has filled in when it was made.
    assert "field is immutable" in kubectl("apply", *kubectl.lenient, "-f", "-", given=runs, code=1)
    kubectl("wait", "jobset/runs", "--for=condition=Completed", "--timeout=500s")
    pod = kubectl("get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=runs", "-o", "name").strip()
    assert kubectl("logs", pod).strip() == "it runs"
    assert "AllJobsCompleted" in kubectl("get", "jobset", "runs", "-o", "yaml")
    assert "terminalState" in kubectl("get", "jobset", "runs", "-o", "jsonpath={.status}")
    assert "runs" in kubectl("describe", "jobset", "runs")
    assert "Exit Code:    0" in kubectl("describe", pod)
    assert "cpu-0" in kubectl("get", "nodes", "-o", "wide")
    kubectl("delete", "jobset", "runs", "--timeout=500s")
    until(lambda: "No resources found" in kubectl("get", "pods"))
    assert "NotFound" in kubectl("get", "jobset", "runs", code=1)


def test_it_applies_by_the_server_and_is_refused_as_by_any_other(kubectl: Kubectl) -> None:
    first, other = config_map("a", x="1"), config_map("a", x="2")
    apply = ("apply", *kubectl.lenient)
    assert "serverside-applied" in kubectl(*apply, "--server-side", "-f", "-", given=first)
    by_other = (*apply, "--server-side", "--field-manager=other", "-f", "-")
    assert 'conflict with "kubectl"' in kubectl(*by_other, given=other, code=1)
    kubectl(*by_other, "--force-conflicts", given=other)
    assert kubectl("get", "configmap", "a", "-o", "jsonpath={.data.x}") == "2"
    odd = _workload("1odd", "print(1)")
    assert "a DNS-1035 label must" in kubectl("create", *kubectl.lenient, "-f", "-", given=odd, code=1)
    if not kubectl.lenient:
        odd["spec"]["bogus"] = 1
        assert 'unknown field "spec.bogus"' in kubectl("apply", "-f", "-", given=odd, code=1)
    assert "deployments" in kubectl("api-resources")
    assert "v1.36" in kubectl("version")
