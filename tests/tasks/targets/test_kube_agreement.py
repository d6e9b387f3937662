"""Our JobSets beside those of xpk for the same request: what is acted on agrees, and each difference has its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_check import checked
from tasks.targets.kube_jobset import jobset
from tasks.targets.kube_submission import Submission

CASES = Path(__file__).parents[2] / "cases" / "xpk"
IMAGE = "gcr.io/golden-project/dry-run-runner:prefix-current"
_PATHWAYS = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"

REQUESTS: dict[str, dict[str, Any]] = {
    "tpu_v5p8_1slice": {"type": "v5p-8"},
    "tpu_v6e1": {"type": "v6e-1"},
    "tpu_v5litepod16_4slices_env": {
        "type": "v5litepod-16",
        "slices": 4,
        "env": {"FOO": "bar", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".9"},
        "priority": "high",
        "max_restarts": 3,
        "restart_exit_codes": "1,3-5",
        "limits": {"termination_grace_s": 90},
    },
    "tpu_v4_32_ramdisk_mtc": {
        "type": "v4-32",
        "slices": 2,
        "ramdisk": {"directory": "local", "by": "multi_tier"},
    },
    "gpu_a100": {"type": "a100-40gb-8", "nodes": 2, "container_name": "gpu-image"},
    "cpu_n2_standard_32_2": {"type": "n2-standard-32-2", "slices": 2},
    "pathways_v5p8_2slices": {
        "type": "v5p-8",
        "slices": 2,
        "pathways": {
            "server_image": f"{_PATHWAYS}/server:latest",
            "proxy_image": f"{_PATHWAYS}/proxy_server:latest",
        },
    },
}
"""What of a target file asks for the same as the request that a case is named after."""

DIFFERENCES = {
    r"labels/xpk.google.com/workload": "xpk finds its workloads by it; ours carry the labels of their lease",
    r"metadata/namespace": "named, where xpk takes the one that kubectl happens to stand in",
    r"/command = ": "commands were left out of the cases",
    r"spec/network/": "JobSet's own defaults, written down: addresses are made of them",
    r"completionMode": "what JobSet's webhook fills in",
    r"schedulerName": "default-scheduler is what Kubernetes takes when none is named",
    r"failurePolicy/rules.RestartJobSetAndIgnoreMaxRestarts": "preemption starts again and never counts",
    r"podFailurePolicy/rules.DisruptionTarget": "… by failing the Job at once when a pod is taken away",
    r"env.(JOBSET_NAME|REPLICATED_JOB_NAME|JOB_INDEX|JOB_COMPLETION_INDEX|PROCESSES_IN_JOB|JAX_PROCESS_COUNT)": (
        "every pod is told which it is, in xpk's words; the JobSet's name as text, which xpk forgets on CPUs, so that "
        "its coordinator's address there is $(JOBSET_NAME)-…"
    ),
    r"env.JAX_COORDINATOR_PORT": "its port on CPUs as well as on GPUs",
    r"env.MEGASCALE_(NUM_SLICES|SLICE_ID|COORDINATOR_ADDRESS)": (
        "written down, where xpk relies on GKE to put them in; the coordinator by name, as below"
    ),
    r"nodeSelector/cloud.google.com/gke-accelerator|gke-accelerator./operator = Exists|"
    r"gke-nodepool./(operator = In|values = .*golden-cluster)": (
        "the kind of GPU is selected, not the name that xpk gave a node pool"
    ),
    r"env.COMMAND": "the command is what the container runs, not a variable that an entrypoint of xpk's own evaluates",
    r"env.USE_GPUDIRECT": "A100 hosts have no GPUDirect network: nothing uses what xpk sets there",
    r"imagePullPolicy": "Kubernetes pulls a tag `latest` always by itself; a digest need not be pulled twice",
    r"containers.(gpu-image|jax-tpu)./volumeMounts.dshm": "mounted, where xpk makes the volume and forgets to",
    r"volumes.dshm": "the program has shared memory with Pathways, too",
    r"privileged": "a program on CPUs needs no rights over its host",
    r"nodeSelector/node.kubernetes.io/instance-type": "numbers of a machine type come from that machine type",
    r"spec/coordinator/": "its label would halve the length of names; the head's name is told as text in its place",
    r"restartStrategy": "Recreate is the default",
    r"pathways-head.*(podFailurePolicy|priorityClassName|terminationGracePeriodSeconds)|"
    r"failurePolicy/(maxRestarts|rules.FailJobSet)|ttlSecondsAfterFinished": (
        "restarts, priority, grace and time to live hold with Pathways too, where xpk ignores them"
    ),
    r"env.(PATHWAYS_HEAD|HOST_ADDRESS)": "the head's name as text, not by the label that it lacks",
    r"spec/suspend": "whether it waits is for Kueue to say",
}
"""Where ours differs (a pattern of `path = theirs → ours`) → why."""

_PUT_IN = {
    "$(PATHWAYS_HEAD)": "golden-workload-pathways-head-0-0.golden-workload",
    "$(JOBSET_NAME)-$(REPLICATED_JOB_NAME)": "golden-workload-slice-job",
    "$(JOBSET_NAME)": "golden-workload",
}
"""What Kubernetes puts in where xpk refers to other variables."""

_SAME_NAMES = {"dshm-2": "dshm", "cache": "ramdisk"}


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields each leaf of an object by its path; items of lists by their names, so that order does not count."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{path}/{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, each in enumerate(value):
            key = identity(each) or str(index)
            rest = {name: inner for name, inner in each.items() if name not in ("name", "key")}
            yield from flat(rest or True, f"{path}[{key}]")
    else:
        text = str(value)
        for reference, name in _PUT_IN.items():
            text = text.replace(reference, name)
        yield path, text


def identity(item: dict[str, Any]) -> str:
    """Returns what tells an item of a list from the others; of a rule, what it is about."""
    if item.get("onPodConditions"):
        return str(item["onPodConditions"][0]["type"])
    if "onExitCodes" in item:
        return str(item["onExitCodes"]["containerName"])
    if "onJobFailureReasons" in item:
        return str(item["action"])
    name = str(item.get("name") or item.get("key") or item.get("containerPort") or "")
    return _SAME_NAMES.get(name, name)


def ours(case: str) -> dict[str, Any]:
    config = GkeTargetConfig.model_validate(
        {"kind": "gke", "context": "golden", "container_name": "jax-tpu", **REQUESTS[case]}
    )
    made = jobset(config, Submission("golden-workload", IMAGE, ["true"]))
    assert checked(made) == []
    return made


def differences(case: str) -> list[str]:
    theirs = dict(flat(json.loads((CASES / f"{case}.json").read_text())[0]))
    made = dict(flat(ours(case)))
    assert len(theirs) > 20
    paths = sorted({*theirs, *made})
    return [
        f"{path} = {theirs.get(path)} → {made.get(path)}"
        for path in paths
        if theirs.get(path) != made.get(path)
    ]


def test_every_case_is_compared() -> None:
    assert {path.stem for path in CASES.glob("*.json")} == set(REQUESTS)


@pytest.mark.parametrize("case", REQUESTS)
def test_what_is_acted_on_agrees_but_for_what_has_a_reason(case: str) -> None:
    unexplained = [
        line for line in differences(case) if not any(re.search(pattern, line) for pattern in DIFFERENCES)
    ]
    assert unexplained == []


def test_no_reason_is_given_for_what_agrees() -> None:
    lines = [line for case in REQUESTS for line in differences(case)]
    assert [pattern for pattern in DIFFERENCES if not any(re.search(pattern, line) for line in lines)] == []
