"""Shows that a JobSet's pods really run: commands, variables, logs, ends, and that nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lightkube import Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Pod

from tests.cloud.kubernetes.client import JOBS, JOBSETS, PODS, Plain
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool

_POOLS = [tpu_pool(f"np-{one}", *TPU.values(), hosts=2) for one in range(2)]
_NAMES = """
import os
print(os.environ["COORDINATOR"], os.environ["SLICE"], os.environ["JOB_COMPLETION_INDEX"], os.environ["GIVEN"])
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """One stand-in for all tests of this file."""
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=_POOLS) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Plain:
    """A client of it."""
    return Plain(cluster.url)


def _with_names() -> dict[str, object]:
    made = jobset("names", _NAMES, coordinator={"replicatedJob": "slice-job", "jobIndex": 1, "podIndex": 0})
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    label = "metadata.labels['jobset.sigs.k8s.io/{}']"
    container["env"] = [
        {"name": "COORDINATOR", "value": "$(ADDRESS):8476"},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": label.format("coordinator")}}},
        {"name": "SLICE", "valueFrom": {"fieldRef": {"fieldPath": label.format("job-index")}}},
        {"name": "GIVEN", "value": "names-slice-job-0-1.names.default.svc.cluster.local"},
    ]
    container["env"][:2] = container["env"][1::-1]
    return made


def test_pods_run_their_command_with_the_variables_of_their_place(
    cluster: KubernetesStandIn, api: Plain
) -> None:
    api.post(JOBSETS, _with_names())
    status = api.ended("names")["status"]
    assert status["terminalState"] == "Completed"
    assert status["replicatedJobsStatus"] == [
        {"active": 0, "failed": 0, "name": "slice-job", "ready": 0, "succeeded": 2, "suspended": 0}
    ]
    logs = [api.text(f"{PODS}/{name}/log") for name in api.names(PODS)]
    assert sorted(logs) == [
        f"127.0.0.1:8476 {slice_} {pod} 127.0.0.1\n" for slice_ in range(2) for pod in range(2)
    ]
    api.delete(f"{JOBSETS}/names")
    cluster.assert_nothing_left()


def test_each_slice_is_on_one_node_pool(api: Plain) -> None:
    api.post(JOBSETS, jobset("placed"))
    api.ended("placed")
    pools: dict[str, set[str]] = {}
    for pod in api.get(PODS, labelSelector="app=placed")["items"]:
        index = pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]
        pools.setdefault(index, set()).add(pod["spec"]["nodeName"].rpartition("-")[0])
    assert sorted(map(sorted, pools.values())) == [["np-0"], ["np-1"]]
    api.delete(f"{JOBSETS}/placed")


def test_deleting_ends_the_processes_by_the_pods_grace(cluster: KubernetesStandIn, api: Plain) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(99)"
    )
    api.post(JOBSETS, jobset("stays", stubborn, slices=1, pod={"terminationGracePeriodSeconds": 1}))
    api.eventually(PODS, lambda told: [one["status"]["phase"] for one in told["items"]] == ["Running"] * 2)
    assert len(cluster.processes()) == 2
    api.delete(f"{JOBSETS}/stays")
    api.get(f"{JOBSETS}/stays", 404)
    assert cluster.processes()
    cluster.assert_nothing_left()


def test_lightkube_creates_follows_and_reads(cluster: KubernetesStandIn) -> None:
    jobsets = create_namespaced_resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    client = Client(config=KubeConfig.from_file(cluster.kubeconfig).get("standin"), trust_env=False)
    made = client.create(jobsets(jobset("typed", "print('hello')", slices=1)), namespace="default")
    for _, seen in client.watch(jobsets, namespace="default", resource_version=made.metadata.resourceVersion):
        if (seen.status or {}).get("terminalState"):
            break
    selected = {"jobset.sigs.k8s.io/jobset-uid": made.metadata.uid}
    pods = list(client.list(Pod, namespace="default", labels=selected))
    assert len(pods) == 2
    assert [list(client.log(one.metadata.name, namespace="default")) for one in pods] == [["hello\n"]] * 2
    client.delete(jobsets, "typed", namespace="default")
    cluster.assert_nothing_left()


def test_what_pods_left_behind_is_killed_with_them(cluster: KubernetesStandIn, api: Plain) -> None:
    program = "import subprocess; subprocess.Popen(['sleep', '98'], start_new_session=True)"
    api.post(JOBSETS, jobset("leaves", program, slices=1))
    api.ended("leaves")
    assert not cluster.processes()
    api.delete(f"{JOBSETS}/leaves")
    assert not api.get(JOBS)["items"] or api.eventually(JOBS, lambda told: not told["items"])
