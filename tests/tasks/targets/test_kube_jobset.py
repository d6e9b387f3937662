"""The JobSet of a workload: its parts, what a program finds in its pods, and what Kubernetes makes of its ends."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.config.accelerators import accelerator, known_names
from tasks.targets.kube_check import checked
from tasks.targets.kube_check import job_of as first_job
from tasks.targets.kube_jobset import jobset, secret
from tasks.targets.kube_submission import Object
from tests.tasks.targets.kube_made import (
    BOARD,
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

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "XLA_FLAGS")

NEAR = {"kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gce-topology-block"}

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
    assert {seen(each)["SLICEBENCH_CONTAINERS_PER_HOST"] for each in containers} == {"2"}
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


def test_a_network_of_the_host_needs_names_from_the_cluster() -> None:
    spec = pod_of(made())["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    identity = {"cluster": {"name": "c", "project": "p", "make": {"workload_identity": True}}}
    for fields in ({"service_account": "wi"}, {"host_network": False}, {"type": "cpu"}, identity):
        assert not {"hostNetwork", "dnsPolicy"} & pod_of(made(fields))["spec"].keys()
    assert pod_of(made({"service_account": "wi", "host_network": True}))["spec"]["hostNetwork"] is True


def test_a_variable_of_the_users_wins() -> None:
    fields = {"type": "h100-80gb-8", "nodes": 2, "slices": 1, "gpu_networks": list("abcd")}
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


@pytest.mark.parametrize(
    ("fields", "apart"),
    [
        ({"type": "n2-standard-4-2", "cpu": "1"}, True),
        ({"type": "n2-standard-4-2"}, False),  # asks for nearly all of its host
        ({"type": "n2-standard-4-1", "cpu": "1", "slices": 1}, False),
        ({"type": "cpu", "nodes": 2, "cpu": "1"}, False),  # any cluster's hosts, maybe a single one
        ({"type": "n2-standard-4-2", "cpu": "1", "pod_annotations": NEAR}, False),  # Kueue chooses the hosts
    ],
)
def test_pods_of_which_two_fit_on_a_host_keep_apart(fields: dict[str, Any], apart: bool) -> None:
    affinity = pod_of(made(fields))["spec"].get("affinity", {})
    assert ("podAntiAffinity" in affinity) == apart


@pytest.mark.parametrize(
    ("type_", "shared"),
    [
        ("l4-1", True), ("l4-4", True), ("l4-8", False), ("a100-40gb-2", True), ("a100-40gb-8", False),
        ("h100-80gb-8", False), ("gb200-4", False), ("v5litepod-8", False),
    ],
)  # fmt: skip
def test_pods_that_may_share_a_host_keep_to_their_own_gpus_and_network(type_: str, shared: bool) -> None:
    more = {} if type_ == "v5litepod-8" else {"nodes": 2}
    networks = {"gpu_networks": []} if type_.startswith(("h100", "gb200")) else {}
    fields = {"type": type_, "slices": 1, **more, **networks}
    pod, main = pod_of(made(fields))["spec"], main_of(made(fields))
    assert ("hostNetwork" not in pod) == shared
    assert ("securityContext" not in main) == shared
    assert ("podAntiAffinity" in pod.get("affinity", {})) == shared
    said = {**fields, "host_network": True, "privileged": True}
    assert pod_of(made(said))["spec"]["hostNetwork"] and main_of(made(said))["securityContext"]["privileged"]
