"""Shows that a JobSet's pods really run: commands, variables, logs, ends, and that nothing is left."""

from __future__ import annotations

import time

from lightkube import Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Pod

from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until

_NAMES = """
import os
print(os.environ["COORDINATOR"], os.environ["SLICE"], os.environ["JOB_COMPLETION_INDEX"], os.environ["GIVEN"])
"""


def _with_names(space: str) -> dict[str, object]:
    made = jobset("names", _NAMES, coordinator={"replicatedJob": "slice-job", "jobIndex": 1, "podIndex": 0})
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    label = "metadata.labels['jobset.sigs.k8s.io/{}']"
    container["env"] = [
        {"name": "COORDINATOR", "value": "$(ADDRESS):8476"},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": label.format("coordinator")}}},
        {"name": "SLICE", "valueFrom": {"fieldRef": {"fieldPath": label.format("job-index")}}},
        {"name": "GIVEN", "value": f"names-slice-job-0-1.names.{space}.svc.cluster.local"},
    ]
    container["env"][:2] = container["env"][1::-1]
    return made


def test_pods_run_their_command_with_the_variables_of_their_place(
    cluster: KubernetesStandIn, api: Space
) -> None:
    api.post("jobsets", _with_names(api.space))
    status = api.ended("names")["status"]
    assert status["terminalState"] == "Completed"
    assert status["replicatedJobsStatus"] == [
        {"active": 0, "failed": 0, "name": "slice-job", "ready": 0, "succeeded": 2, "suspended": 0}
    ]
    logs = [api.log(name) for name in api.names("pods")]
    assert sorted(logs) == [
        f"127.0.0.1:8476 {slice_} {pod} 127.0.0.1\n" for slice_ in range(2) for pod in range(2)
    ]
    api.delete("jobsets", "names")
    cluster.assert_nothing_left(but=("namespaces",))


def test_each_slice_is_on_one_node_pool(api: Space) -> None:
    api.post("jobsets", jobset("placed"))
    api.ended("placed")
    pools: dict[str, set[str]] = {}
    for pod in api.get("pods", labelSelector="app=placed")["items"]:
        index = pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]
        pools.setdefault(index, set()).add(pod["spec"]["nodeName"].rpartition("-")[0])
    assert sorted(map(sorted, pools.values())) == [["np-0"], ["np-1"]]
    api.delete("jobsets", "placed")


def test_deleting_ends_the_processes_by_the_pods_grace(cluster: KubernetesStandIn, api: Space) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(99)"
    )
    api.post("jobsets", jobset("stays", stubborn, slices=1, pod={"terminationGracePeriodSeconds": 1}))
    until(lambda: api.phases() == ["Running"] * 2)
    until(lambda: all("up" in api.log(pod) for pod in api.names("pods")))  # until then SIGTERM ends them
    assert len(cluster.processes()) == 2
    began = time.monotonic()
    api.delete("jobsets", "stays")
    api.get("jobsets", "stays", 404)
    cluster.assert_nothing_left(but=("namespaces",))
    assert time.monotonic() - began > 1
    assert ("Killing", "Stopping container jax-tpu") in api.events()


def test_lightkube_creates_follows_and_reads(cluster: KubernetesStandIn, api: Space) -> None:
    jobsets = create_namespaced_resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    client = Client(config=KubeConfig.from_file(cluster.kubeconfig).get("standin"), trust_env=False)
    made = client.create(jobsets(jobset("typed", "print('hello')", slices=1)), namespace=api.space)
    for _, seen in client.watch(jobsets, namespace=api.space, resource_version=made.metadata.resourceVersion):
        if (seen.status or {}).get("terminalState"):
            break
    selected = {"jobset.sigs.k8s.io/jobset-uid": made.metadata.uid}
    pods = list(client.list(Pod, namespace=api.space, labels=selected))
    assert len(pods) == 2
    assert [list(client.log(one.metadata.name, namespace=api.space)) for one in pods] == [["hello\n"]] * 2
    client.delete(jobsets, "typed", namespace=api.space)
    cluster.assert_nothing_left(but=("namespaces",))


def test_what_pods_left_behind_is_killed_with_them(cluster: KubernetesStandIn, api: Space) -> None:
    program = "import subprocess; subprocess.Popen(['sleep', '98'], start_new_session=True)"
    api.post("jobsets", jobset("leaves", program, slices=1))
    api.ended("leaves")
    assert not cluster.processes()
    api.delete("jobsets", "leaves")
    api.gone("jobs")
