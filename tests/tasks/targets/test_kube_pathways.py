"""The JobSet of Pathways: one program beside its servers, servers alone, Python beside each worker."""

from __future__ import annotations

from tasks.targets.kube_check import checked
from tests.tasks.targets.kube_made import (
    PATHWAYS,
    job_of,
    made,
    main_of,
    pod_of,
    seen,
)


def test_pathways_runs_one_program_beside_its_servers() -> None:
    jobset = made({"pathways": {**PATHWAYS, "elastic_slices": 1, "max_slice_restarts": 3}})
    head = pod_of(jobset, "pathways-head")["spec"]
    assert [each["name"] for each in head["initContainers"]] == ["pathways-proxy", "pathways-rm"]
    assert all(each["restartPolicy"] == "Always" for each in head["initContainers"])
    assert "--num_elastic_slices=1" in head["initContainers"][0]["args"]
    assert "--instance_type=tpuv5e:4x4" in head["initContainers"][1]["args"]
    env = seen(main_of(jobset, "pathways-head"))
    assert env["JAX_BACKEND_TARGET"] == "grpc://run-1-pathways-head-0-0.run-1:29000"
    worker = job_of(jobset, "worker")
    assert (worker["completions"], worker["backoffLimit"]) == (4, 12)
    assert jobset["spec"]["successPolicy"]["targetReplicatedJobs"] == ["pathways-head"]
    assert checked(jobset) == []


def test_headless_pathways_has_servers_alone_and_ends_by_its_deadline() -> None:
    limits = {"workload_s": 60}
    jobset = made({"pathways": {**PATHWAYS, "headless": True}, "limits": limits}, image="", command=[])
    head = pod_of(jobset, "pathways-head")["spec"]
    assert [each["name"] for each in head["containers"]] == ["pathways-proxy", "pathways-rm"]
    assert "successPolicy" not in jobset["spec"] and "initContainers" not in head
    assert job_of(jobset, "pathways-head")["activeDeadlineSeconds"] == 60
    assert checked(jobset) == []


def test_colocated_python_is_beside_each_worker() -> None:
    image = "r/sidecar:python_3.12-jax_0.10.0"
    jobset = made({"pathways": {**PATHWAYS, "colocated_python_image": image}})
    (sidecar,) = pod_of(jobset, "worker")["spec"]["initContainers"]
    assert (sidecar["image"], sidecar["restartPolicy"]) == (image, "Always")
    assert seen(sidecar) == {"GRPC_SERVER_ADDRESS": "0.0.0.0:50051"}
    assert checked(jobset) == []
