"""The JobSet of a workload: its parts, what a program finds in its pods, and what Kubernetes makes of its ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.config.accelerators import accelerator, known_names
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_check import checked
from tasks.targets.kube_check import job_of as first_job
from tasks.targets.kube_jobset import jobset, secret
from tasks.targets.kube_submission import Object
from tests.tasks.targets.kube_made import (
    IMAGE,
    PATHWAYS,
    config,
    expanded,
    job_of,
    made,
    main_of,
    pod_of,
    seen,
    submission,
)
from tests.waiting import PATIENCE_S, until

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "XLA_FLAGS")

# What breaks xpk's manifests, which are put together from text.
HARD = [
    '{"a":"b"}', r"\d+", '"quoted"', "one\ntwo", "a: b # c", "- x", "'", "$(HOSTNAME)", "$$(A)", "$", "$$", "%s {x}",
    "yes", "null", "1e3", "", " ", "\t", "é ☃ 𝄞", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("value", HARD)
def test_values_that_break_xpk_arrive_as_they_are(value: str) -> None:
    command = ["python", "-c", f"print({value!r})", value or "-"]
    jobset = made({"env": {"IN_FILE": value}}, env={"GIVEN": value}, command=command)
    assert checked(jobset) == []
    container = main_of(yaml.safe_load(yaml.safe_dump(json.loads(json.dumps(jobset)))))
    env = seen(container)
    assert (env["IN_FILE"], env["GIVEN"]) == (value, value)
    assert [expanded(word, env) for word in container["command"]] == command


@given(env=st.dictionaries(NAMES, TEXT, max_size=5), words=st.lists(TEXT, min_size=1, max_size=4))
def test_any_environment_and_any_command_arrive_as_they_are(env: dict[str, str], words: list[str]) -> None:
    container = main_of(json.loads(json.dumps(made(env=env, command=words))))
    assert env.items() <= seen(container).items()
    assert [expanded(word, seen(container)) for word in container["command"]] == words


@given(value=TEXT, other=TEXT)
def test_what_the_program_is_given_never_depends_on_another_variable(value: str, other: str) -> None:
    env = seen(main_of(made(env={"HOME": other, "A": f"$(HOME){value}"})))
    assert env["A"] == f"$(HOME){value}"


def test_the_program_itself_is_what_runs() -> None:
    container = main_of(made(command=["python", "train.py"]))
    assert container["command"] == ["python", "train.py"]
    assert "args" not in container


def test_every_accelerator_makes_a_jobset_that_can_be_submitted() -> None:
    for name in known_names():
        shape = accelerator(name)
        jobset = made({"type": name, "slices": 1})
        assert checked(jobset) == []
        job, limits = job_of(jobset), main_of(jobset).get("resources", {}).get("limits", {})
        assert (job["parallelism"], job["completions"]) == (shape.hosts, shape.hosts)
        if shape.kind != "cpu":
            assert limits == {shape.resource: shape.chips_per_host}
        assert pod_of(jobset)["spec"].get("nodeSelector", {}) == shape.node_selector


def test_slices_are_jobs_and_hosts_are_pods() -> None:
    jobset = made()
    assert jobset["spec"]["replicatedJobs"][0]["replicas"] == 2
    job = job_of(jobset)
    assert (job["parallelism"], job["completions"], job["completionMode"], job["backoffLimit"]) == (
        4,
        4,
        "Indexed",
        0,
    )
    annotation = jobset["metadata"]["annotations"]
    assert annotation == {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}


def test_a_pod_of_several_slices_is_told_which_it_is() -> None:
    pod = {
        "metadata.labels['jobset.sigs.k8s.io/job-index']": "1",
        "metadata.annotations['jobset.sigs.k8s.io/job-index']": "1",
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": "3",
    }
    env = seen(main_of(made()), pod)
    assert {name: value for name, value in env.items() if name.startswith("MEGASCALE")} == {
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "run-1-slice-job-0-0.run-1",
    }
    assert (env["JOB_INDEX"], env["JOB_COMPLETION_INDEX"], env["PROCESSES_IN_JOB"]) == ("1", "3", "4")
    assert env["JAX_PROCESS_COUNT"] == "8"
    assert not any(name.startswith("MEGASCALE") for name in seen(main_of(made({"slices": 1}))))


def test_gpus_are_told_rank_and_coordinator() -> None:
    env = seen(main_of(made({"type": "l4-8", "nodes": 2, "slices": 1})))
    assert (env["NNODES"], env["GPUS_PER_NODE"], env["JAX_COORDINATOR_PORT"]) == ("2", "8", "6002")
    assert env["JAX_COORDINATOR_ADDRESS"] == "run-1-slice-job-0-0.run-1"


def test_several_containers_share_a_host() -> None:
    jobset = made({"type": "tpu7x-16", "containers_per_host": 2})
    containers = pod_of(jobset)["spec"]["containers"]
    assert [each["name"] for each in containers] == ["worker-1", "worker-2"]
    assert [each["resources"]["limits"] for each in containers] == [{"google.com/tpu": 2}] * 2
    assert [seen(each)["CONTAINER_INDEX"] for each in containers] == ["0", "1"]
    rules = job_of(jobset)["podFailurePolicy"]["rules"]
    assert [rule["onExitCodes"]["containerName"] for rule in rules[1:]] == ["worker-1", "worker-2"]
    assert checked(jobset) == []


def test_secrets_are_in_the_secret_and_nowhere_else() -> None:
    target, what = config(), submission(secrets={"HF_TOKEN": "hunter2", "B": "x"}, env={"HF_TOKEN": "no"})
    jobset_made, kept = jobset(target, what), secret(target, what, "uid-7")
    assert "hunter2" not in json.dumps(jobset_made)
    assert kept is not None and kept["stringData"] == {"HF_TOKEN": "hunter2", "B": "x"}
    assert kept["metadata"]["ownerReferences"] == [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "run-1", "uid": "uid-7"}
    ]
    (variable,) = [each for each in main_of(jobset_made)["env"] if each["name"] == "HF_TOKEN"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": kept["metadata"]["name"], "key": "HF_TOKEN"}}
    assert secret(target, submission(), "uid-7") is None


def test_everything_carries_the_labels_of_the_lease() -> None:
    labels = {"slicebench-lease": "run-1-1", "slicebench-ledger": "ab"}
    target = config(tensorboard=BOARD, pathways=PATHWAYS)
    for each in (config(), target):
        jobset_made = jobset(each, submission(labels=labels))
        places = [jobset_made["metadata"]]
        for replicated in jobset_made["spec"]["replicatedJobs"]:
            template = replicated["template"]
            places += [template["metadata"], template["spec"]["template"]["metadata"]]
        assert all(labels.items() <= place["labels"].items() for place in places)
    kept = secret(config(), submission(labels=labels, secrets={"A": "b"}), "u")
    assert kept is not None and kept["metadata"]["labels"] == labels


BOARD = {"instance": "projects/p/locations/l/tensorboards/1", "logdir": "gs://bucket/logs", "image": "r/tb:1"}


def ends(
    target: GkeTargetConfig,
    *,
    exit_code: int = 0,
    condition: str = "",
    deadline: bool = False,
    once: bool = False,
) -> str:
    """Returns what a pod's end does to the JobSet, by the documented order of rules."""
    spec = jobset(target, submission(deadline_s=60 if deadline else None, once=once))["spec"]
    template = spec["replicatedJobs"][0]["template"]["spec"]
    reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if deadline:
        reason, message = "DeadlineExceeded", "Job was active longer than specified deadline"
    for index, rule in enumerate(() if deadline else template["podFailurePolicy"]["rules"]):
        if condition and condition in [each["type"] for each in rule.get("onPodConditions", [])]:
            reason = "PodFailurePolicy"
            message = f"Pod ns/p has condition {condition} matching FailJob rule at index {index}"
            break
        codes = rule.get("onExitCodes")
        if codes and exit_code and exit_code not in codes["values"]:
            reason = "PodFailurePolicy"
            message = f"Container worker for pod ns/p failed with exit code {exit_code} matching FailJob rule"
            break
    for rule in spec["failurePolicy"].get("rules", []):
        patterns = rule.get("onJobFailureMessagePatterns", [""])
        if reason in rule["onJobFailureReasons"] and any(re.search(each, message) for each in patterns):
            return {"FailJobSet": "fails", "RestartJobSetAndIgnoreMaxRestarts": "restarts free"}[
                rule["action"]
            ]
    return "restarts" if spec["failurePolicy"]["maxRestarts"] else "fails"


@pytest.mark.parametrize(
    ("fields", "end", "what"),
    [
        ({}, {"exit_code": 1}, "fails"),
        ({}, {"exit_code": 137}, "fails"),
        ({}, {"exit_code": 143, "condition": "DisruptionTarget"}, "restarts free"),
        ({"max_restarts": 3}, {"exit_code": 1}, "fails"),
        ({"max_restarts": 3}, {"exit_code": 42}, "restarts"),
        ({"max_restarts": 3}, {"exit_code": 137}, "restarts"),
        ({"max_restarts": 3}, {"exit_code": 143, "condition": "DisruptionTarget"}, "restarts free"),
        ({"max_restarts": 3, "restart_exit_codes": "1, 3-5"}, {"exit_code": 4}, "restarts"),
        ({"max_restarts": 3, "restart_exit_codes": "1, 3-5"}, {"exit_code": 2}, "fails"),
        ({"max_restarts": 3, "restart_on_user_code_failure": True}, {"exit_code": 2}, "restarts"),
        (
            {"max_restarts": 3, "restart_on_user_code_failure": True},
            {"exit_code": 1, "condition": "DisruptionTarget"},
            "restarts free",
        ),
        ({"max_restarts": 3}, {"deadline": True}, "fails"),
        ({"max_restarts": 3, "restart_on_user_code_failure": True}, {"deadline": True}, "fails"),
    ],
)
def test_preemption_never_counts_and_failures_count_when_asked(
    fields: dict[str, Any], end: dict[str, Any], what: str
) -> None:
    assert ends(config(**fields), **end) == what
    assert ends(config(**fields), **end, once=True) == "fails"


def test_a_deadline_is_kept_by_the_cluster_itself() -> None:
    jobset = made({"limits": {"workload_s": 3600}})
    assert job_of(jobset)["activeDeadlineSeconds"] == 3600
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == "3600"
    assert job_of(made({"limits": {"workload_s": 3600}}, deadline_s=60))["activeDeadlineSeconds"] == 60
    without = made({"queue": None, "limits": {"workload_s": 3600}})
    assert "labels" not in without["metadata"]


def test_a_network_of_the_host_needs_names_from_the_cluster() -> None:
    spec = pod_of(made())["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    identity = {"cluster": {"name": "c", "project": "p", "make": {"workload_identity": True}}}
    for fields in ({"service_account": "wi"}, {"host_network": False}, {"type": "cpu"}, identity):
        assert not {"hostNetwork", "dnsPolicy"} & pod_of(made(fields))["spec"].keys()
    assert pod_of(made({"service_account": "wi", "host_network": True}))["spec"]["hostNetwork"] is True


def test_dumps_are_copied_by_a_container_that_outlives_the_worker() -> None:
    jobset = made({"debug_dump": {"to": "gs://bucket/dumps"}, "env": {"XLA_FLAGS": "--xla_a=1"}})
    env = seen(main_of(jobset))
    assert env["XLA_FLAGS"] == "--xla_a=1 --xla_dump_to=/xla-dump"
    (copier,) = pod_of(jobset)["spec"]["initContainers"]
    assert copier["restartPolicy"] == "Always"
    assert seen(copier, {"metadata.name": "pod-1"}) == {
        "FROM": "/xla-dump",
        "TO": "gs://bucket/dumps",
        "EVERY_S": "60",
        "POD_NAME": "pod-1",
    }
    assert checked(jobset) == []
    given = seen(main_of(made({"debug_dump": {"to": "gs://bucket"}}, env={"XLA_FLAGS": "-b"})))
    assert given["XLA_FLAGS"] == "-b --xla_dump_to=/xla-dump"


def test_the_copier_copies_meanwhile_and_once_more_at_its_end(tmp_path: Path) -> None:
    (copier,) = pod_of(made({"debug_dump": {"to": "gs://bucket/dumps"}}))["spec"]["initContainers"]
    log = tmp_path / "log"
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexit 1\n')  # a copy that fails does not end it
    gcloud.chmod(0o755)
    env = {**seen(copier), "POD_NAME": "pod-1", "EVERY_S": "0.1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen([expanded(word, env) for word in copier["command"]], env=env)
    try:
        until(lambda: log.exists() and len(log.read_text().splitlines()) >= 2)
        before = len(log.read_text().splitlines())
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        lines = log.read_text().splitlines()
        assert len(lines) > before
        assert set(lines) == {"storage rsync --recursive /xla-dump gs://bucket/dumps/pod-1"}
    finally:
        process.kill()


def test_the_collector_reads_the_host_and_ends_after_the_worker() -> None:
    jobset = made({"ops_agent": {"interval_s": 30}})
    (agent,) = pod_of(jobset)["spec"]["initContainers"]
    told = json.loads(seen(agent)["COLLECTOR"])
    assert told["receivers"]["hostmetrics"]["collection_interval"] == "30s"
    assert set(told["receivers"]["hostmetrics"]["scrapers"]) >= {"cpu", "memory", "disk", "network"}
    assert agent["restartPolicy"] == "Always" and agent["volumeMounts"][0]["readOnly"] is True
    assert checked(jobset) == []


def test_an_uploader_does_not_hold_up_success() -> None:
    jobset = made({"tensorboard": BOARD})
    assert jobset["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["slice-job"]}
    job = job_of(jobset, "tensorboard")
    assert job["completions"] == 1 and job["backoffLimit"] > 100 and "podFailurePolicy" not in job
    assert "--experiment_name=run-1" in main_of(jobset, "tensorboard")["command"]
    assert "nodeSelector" not in pod_of(jobset, "tensorboard")["spec"]
    assert checked(jobset) == []


def test_a_variable_of_the_users_wins() -> None:
    fields = {"type": "h100-80gb-8", "nodes": 2, "slices": 1, "gpu_networks": ["a"]}
    assert seen(main_of(made(fields)))["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    mine = {"LD_LIBRARY_PATH": "/mine", "JAX_COORDINATOR_PORT": "7000"}
    assert mine.items() <= seen(main_of(made({**fields, "env": {"LD_LIBRARY_PATH": "x"}}, env=mine))).items()


def test_ramdisks() -> None:
    def volume(**disk: Any) -> Object:
        jobset = made({"ramdisk": disk})
        mounts = {each["name"]: each["mountPath"] for each in main_of(jobset)["volumeMounts"]}
        assert mounts["ramdisk"] == "/local"
        (found,) = [each for each in pod_of(jobset)["spec"]["volumes"] if each["name"] == "ramdisk"]
        return found

    assert volume()["csi"] == {"driver": "phase1-checkpoint.csi.storage.gke.io"}
    assert volume(by="multi_tier")["csi"] == {"driver": "multitier-checkpoint.csi.storage.gke.io"}
    memory = volume(by="memory", size="2GiB")["emptyDir"]
    assert memory == {"medium": "Memory", "sizeLimit": str(2 << 30)}


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


@pytest.mark.parametrize(
    ("name", "networks", "sidecar", "mount"),
    [
        ("h100-80gb-8", 4, ["tcpx-daemon"], "tcpx-socket"),
        ("h100-mega-80gb-8", 8, ["tcpxo-daemon"], "aperture-devices"),
        ("h200-141gb-8", 9, [], "gib"),
        ("b200-8", 9, [], "gib"),
    ],
)
def test_gpus_of_several_hosts_get_their_networks(
    name: str, networks: int, sidecar: list[str], mount: str
) -> None:
    names = [f"vpc{number}" for number in range(1, networks + 1)]
    jobset = made({"type": name, "nodes": 2, "slices": 1, "gpu_networks": names})
    pod = pod_of(jobset)
    interfaces = json.loads(pod["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [each["network"] for each in interfaces] == ["default", *names]
    assert [each["interfaceName"] for each in interfaces] == [
        f"eth{number}" for number in range(networks + 1)
    ]
    assert [each["name"] for each in pod["spec"].get("initContainers", [])] == sidecar
    assert mount in [each["name"] for each in main_of(jobset)["volumeMounts"]]
    assert "hostNetwork" not in pod["spec"]
    assert checked(jobset) == []
    plain = made({"type": name, "nodes": 2, "slices": 1, "gpu_networks": []})
    assert "metadata" not in pod_of(plain)


@pytest.mark.parametrize(
    ("cluster", "selector", "affinity"),
    [
        ({}, {}, []),
        ({"capacity": "spot"}, {"cloud.google.com/gke-spot": "true"}, []),
        ({"capacity": "flex_start"}, {"cloud.google.com/gke-flex-start": "true"}, []),
        ({"capacity": "on_demand"}, {}, [("cloud.google.com/gke-spot", "DoesNotExist")]),
        (
            {"capacity": "reservation", "reservations": "projects/p/reservations/r/reservationBlocks/b"},
            {"cloud.google.com/reservation-name": "r"},
            [],
        ),
        (
            {"capacity": "reservation", "reservations": ["r", "s"]},
            {},
            [("cloud.google.com/reservation-name", "In")],
        ),
    ],
)
def test_pods_go_to_nodes_that_are_paid_for_as_asked(
    cluster: dict[str, Any], selector: dict[str, str], affinity: list[tuple[str, str]]
) -> None:
    spec = pod_of(made({"cluster": {"name": "c", **cluster}}))["spec"]
    shape = accelerator("v5litepod-16").node_selector
    assert {key: value for key, value in spec["nodeSelector"].items() if key not in shape} == selector
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    terms = required.get("nodeSelectorTerms", [{"matchExpressions": []}])
    assert [(each["key"], each["operator"]) for each in terms[0]["matchExpressions"]] == affinity


def test_the_first_job_can_be_tried_out_on_the_server() -> None:
    job = first_job(made(labels={"a": "b"}), "slice-job")
    assert (job["kind"], job["metadata"]["name"], job["metadata"]["namespace"]) == (
        "Job",
        "run-1-slice-job-0",
        "default",
    )
    assert (
        job["spec"]["suspend"] is True and job["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    )


def test_words_of_a_command_are_not_read_by_a_shell() -> None:
    words = shlex.split("python -c 'import sys; print(sys.argv)' 'a b' '$HOME'")
    assert main_of(made(command=words))["command"] == words
