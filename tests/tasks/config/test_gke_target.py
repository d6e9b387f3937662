"""The model of GKE target files: each field changes what is asked or planned, and nonsense is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest
from pydantic import BaseModel

from runtime.contract.errors import BadInput
from runtime.contract.job import Deadlines
from tasks.config.gke_parts import Pathways
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.schemas import target_schema
from tasks.config.spec import RunSpec, SourceSpec
from tasks.targets.gke import GkeTarget
from tasks.targets.kube_jobset import jobset
from tests.tasks.targets.kube_made import PATHWAYS, config, submission
from tests.tasks.targets.local_runs import point

CLUSTER = {"name": "c", "project": "p", "location": "us-west4-a"}
BOARD = {"instance": "projects/p/locations/l/tensorboards/1", "logdir": "gs://bucket/logs", "image": "r/tb:1"}
DUMP = {"to": "gs://bucket/dumps"}
H100 = {"type": "h100-80gb-8", "nodes": 2, "slices": 1, "gpu_networks": ["a", "b", "c", "d"]}

# field → two targets that differ in it alone.
BESIDE_FIELDS = {
    *(f"encryption.{name}" for name in ("by_place", "old_keys", "enabled", "face", "allow", "cpu", "memory")),
    *(f"sidecar.{name}" for name in ("name", "image", "command", "env", "port", "certificates", "ready")),
    *(f"sidecar.{name}" for name in ("cpu", "memory")),
    "sidecar.workload_env",
}

FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "context": ({"context": "a"}, {"context": "b"}),
    "cluster.name": ({"cluster": CLUSTER}, {"cluster": {**CLUSTER, "name": "d"}}),
    "cluster.project": ({"cluster": CLUSTER}, {"cluster": {**CLUSTER, "project": "q"}}),
    "cluster.location": ({"cluster": CLUSTER}, {"cluster": {**CLUSTER, "location": "us-east5-b"}}),
    "cluster.create": ({"cluster": CLUSTER}, {"cluster": {**CLUSTER, "create": "never"}}),
    "cluster.capacity": ({"cluster": CLUSTER}, {"cluster": {**CLUSTER, "capacity": "on_demand"}}),
    "cluster.reservations": (
        {"cluster": {**CLUSTER, "capacity": "reservation", "reservations": "r"}},
        {"cluster": {**CLUSTER, "capacity": "reservation", "reservations": "s"}},
    ),
    "namespace": ({}, {"namespace": "n"}),
    "type": ({}, {"type": "v6e-16"}),
    "topology": ({"type": "v4-512"}, {"type": "v4-512", "topology": "4x4x16"}),
    "slices": ({}, {"slices": 3}),
    "nodes": ({"type": "cpu"}, {"type": "cpu", "nodes": 2}),
    "containers_per_host": ({}, {"containers_per_host": 2}),
    "devices_per_worker": ({"type": "cpu"}, {"type": "cpu", "devices_per_worker": 3}),
    "platform": ({}, {"platform": "cpu"}),
    "image_pull_secret": ({}, {"image_pull_secret": "s"}),
    "container_name": ({}, {"container_name": "jax-tpu"}),
    "env": ({}, {"env": {"A": "b"}}),
    "cpu": ({}, {"cpu": 4}),
    "memory": ({}, {"memory": "4GiB"}),
    "service_account": ({"host_network": True}, {"host_network": True, "service_account": "sa"}),
    "host_network": ({}, {"host_network": False}),
    "privileged": ({}, {"privileged": False}),
    "gpu_networks": (H100, {**H100, "gpu_networks": []}),
    "queue": ({}, {"queue": "mine"}),
    "priority": ({}, {"priority": "very-high"}),
    "scheduler": ({}, {"scheduler": "mine"}),
    "exclusive_topology": ({}, {"exclusive_topology": None}),
    "node_selector": ({}, {"node_selector": {"a/b": "c"}}),
    "tolerations": ({}, {"tolerations": "dedicated"}),
    "pod_annotations": ({}, {"pod_annotations": {"a/b": "c"}}),
    "lock": ({"queue": None}, {"queue": None, "lock": True}),
    "max_restarts": ({}, {"max_restarts": 3}),
    "restart_on_user_code_failure": (
        {"max_restarts": 3},
        {"max_restarts": 3, "restart_on_user_code_failure": True},
    ),
    "restart_exit_codes": ({"max_restarts": 3}, {"max_restarts": 3, "restart_exit_codes": 1}),
    "shared.directory": (
        {"shared": {"directory": "/a", "claim": "c"}},
        {"shared": {"directory": "/b", "claim": "c"}},
    ),
    "shared.claim": (
        {"shared": {"directory": "/a", "claim": "c"}},
        {"shared": {"directory": "/a", "claim": "d"}},
    ),
    "shared.nfs": (
        {"shared": {"directory": "/a", "claim": "c"}},
        {"shared": {"directory": "/a", "nfs": "server:/export"}},
    ),
    "shared.host_path": (
        {"shared": {"directory": "/a", "claim": "c"}},
        {"shared": {"directory": "/a", "host_path": "/c"}},
    ),
    "ramdisk.directory": ({"ramdisk": {}}, {"ramdisk": {"directory": "/ram"}}),
    "ramdisk.by": ({"ramdisk": {}}, {"ramdisk": {"by": "multi_tier"}}),
    "ramdisk.size": (
        {"ramdisk": {"by": "memory", "size": "1GiB"}},
        {"ramdisk": {"by": "memory", "size": "2GiB"}},
    ),
    "debug_dump.to": ({"debug_dump": DUMP}, {"debug_dump": {"to": "gs://bucket/other"}}),
    "debug_dump.image": ({"debug_dump": DUMP}, {"debug_dump": {**DUMP, "image": "i"}}),
    "debug_dump.every_s": ({"debug_dump": DUMP}, {"debug_dump": {**DUMP, "every_s": 5}}),
    "ops_agent.image": ({"ops_agent": {}}, {"ops_agent": {"image": "i"}}),
    "ops_agent.interval_s": ({"ops_agent": {}}, {"ops_agent": {"interval_s": 10}}),
    "tensorboard.instance": (
        {"tensorboard": BOARD},
        {"tensorboard": {**BOARD, "instance": "projects/p/locations/l/tensorboards/2"}},
    ),
    "tensorboard.logdir": ({"tensorboard": BOARD}, {"tensorboard": {**BOARD, "logdir": "gs://bucket/l"}}),
    "tensorboard.experiment": ({"tensorboard": BOARD}, {"tensorboard": {**BOARD, "experiment": "e"}}),
    "tensorboard.image": ({"tensorboard": BOARD}, {"tensorboard": {**BOARD, "image": "i"}}),
    "pathways.server_image": ({"pathways": PATHWAYS}, {"pathways": {**PATHWAYS, "server_image": "s:1"}}),
    "pathways.proxy_image": ({"pathways": PATHWAYS}, {"pathways": {**PATHWAYS, "proxy_image": "p:1"}}),
    "pathways.colocated_python_image": (
        {"pathways": PATHWAYS},
        {"pathways": {**PATHWAYS, "colocated_python_image": "c:1"}},
    ),
    "pathways.scratch": ({"pathways": PATHWAYS}, {"pathways": {**PATHWAYS, "scratch": "gs://bucket/s"}}),
    "pathways.head_node_pool": ({"pathways": PATHWAYS}, {"pathways": {**PATHWAYS, "head_node_pool": None}}),
    "pathways.headless": (
        {"pathways": PATHWAYS, "limits": {"workload_s": 9}},
        {"pathways": {**PATHWAYS, "headless": True}, "limits": {"workload_s": 9}},
    ),
    "pathways.elastic_slices": ({"pathways": PATHWAYS}, {"pathways": {**PATHWAYS, "elastic_slices": 1}}),
    "pathways.max_slice_restarts": (
        {"pathways": {**PATHWAYS, "elastic_slices": 1}},
        {"pathways": {**PATHWAYS, "elastic_slices": 1, "max_slice_restarts": 9}},
    ),
    "workload_name": ({}, {"workload_name": "mine"}),
    "wait": ({"limits": {"workload_s": 9}}, {"limits": {"workload_s": 9}, "wait": False}),
    "limits.workload_s": ({}, {"limits": {"workload_s": 9}}),
    "limits.termination_grace_s": ({}, {"limits": {"termination_grace_s": 0}}),
    "limits.ttl_s": ({}, {"limits": {"ttl_s": None}}),
    "limits.attempts": ({}, {"limits": {"attempts": 1}}),
}

ELSEWHERE = {
    "kind": "chooses the model",
    "image": "is resolved to the digest that is submitted",
    **{
        f"build.{name}": "is what the stage build makes: test_build_container"
        for name in ("repository", "base", "python", "builder", "smoke", "script_dir")
    },
    "smoke": "is a pod before the workload: test_gke_smoke",
    "kubeconfig": "is where the context is looked up",
    "cluster.make": "changes what GKE is asked for: test_gke_flags, test_cluster_requests",
    "cluster.zone": "is where a cluster that is missing is made",
    "limits.provisioning_s": "is how long that may take, and then pods: test_gke_waiting",
    "limits.queue_s": "is how long a run waits for its turn: test_gke_waiting",
    **dict.fromkeys(BESIDE_FIELDS, "is a container beside the workers: test_kube_beside"),
}
"""Fields whose effect is neither in the manifest nor in the plan."""


def spec_of(target: GkeTargetConfig, **fields: Any) -> RunSpec:
    """Returns a run on a target, of one benchmark that takes as many devices as it has."""
    shape = target.shape
    each = shape.devices_per_host if target.platform != "cpu" else 1
    devices = target.slices * shape.hosts * each
    if target.platform == "cpu":
        devices = target.workers * (1 if target.devices_per_worker == "auto" else target.devices_per_worker)
    base: dict[str, Any] = {
        "run_id": "run-1", "suite_name": "tiny", "suite_path": "tiny.yaml", "suite_text": "suite_name: tiny\n",
        "points": [point(devices=devices)], "num_repeats": 1, "target_name": "gke", "target": target,
        "source": SourceSpec(), "output": "gs://bucket/runs", "keep": "never", "deadlines": Deadlines(),
    }  # fmt: skip
    return RunSpec(**{**base, **fields})


def asked(fields: dict[str, Any]) -> tuple[Any, Any]:
    """Returns what is asked of the cluster, and what is planned of a run; None: no run can be so."""
    target = config(**fields)
    runs = target.pathways is None or not target.pathways.headless
    return jobset(target, submission()), GkeTarget(target).plan(spec_of(target)) if runs else None


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_changes_what_is_asked_or_planned(field: str) -> None:
    one, other = FIELDS[field]
    assert asked(one) != asked(other)
    assert asked(one) == asked(one)


def test_what_the_model_takes_the_schema_takes() -> None:
    schema = jsonschema.Draft202012Validator(target_schema())
    for one, other in FIELDS.values():
        for fields in (one, other):
            written = {"kind": "gke", "type": "v5litepod-16", **fields}
            if "cluster" not in fields:
                written.setdefault("context", "c")
            schema.validate(json.loads(json.dumps(written)))
    wrong = {"kind": "gke", "context": "c", "type": "cpu", "restart_exit_codes": [0]}
    assert not schema.is_valid(wrong)


def fields_of(model: type[BaseModel], path: str = "") -> Iterator[str]:
    nested = getattr(model, "nested", {})
    for name in model.model_fields:
        if name in nested:
            yield from fields_of(nested[name], f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_no_field_is_left_out_and_each_says_what_it_does() -> None:
    assert set(fields_of(GkeTargetConfig)) == {*FIELDS, *ELSEWHERE}
    for model in (GkeTargetConfig, *GkeTargetConfig.nested.values()):
        for name, field in model.model_fields.items():
            assert name in (*GkeTargetConfig.nested, "kind") or field.description, name


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "v5e-8"}, "did you mean v5litepod-8"),
        ({"shared": {"directory": "/a"}}, "say by one of claim:, nfs: and host_path:"),
        (
            {"shared": {"directory": "/a", "claim": "c", "nfs": "s:/p"}},
            "say by one of claim:, nfs: and host_path:",
        ),
        ({"topology": "4x8"}, "topology 4x8 does not fit v5litepod-16, which is 16 chips, write 4x4"),
        ({"nodes": 2}, "nodes: 2 does not go with v5litepod-16, which is 4 hosts"),
        ({"context": None}, "name either a context: or a cluster:"),
        ({"cluster": {"name": "a"}, "context": "b"}, "name either a context: or a cluster:"),
        ({"cluster": {"name": "a" * 41}}, "cluster.name"),
        ({"cluster": {"name": "a"}, "kubeconfig": "k"}, "kubeconfig: is read for a context"),
        ({"cluster": {"name": "a", "capacity": "reservation"}}, "belong together"),
        ({"cluster": {"name": "a", "capacity": "spot", "reservations": ["r"]}}, "belong together"),
        ({"cluster": {"name": "a", "capacity": ["spot", "on_demand"]}}, "capacity"),
        (
            {"cluster": {"name": "a", "capacity": "flex_start"}, "type": "v4-8"},
            "v4-8 is not given as flex_start",
        ),
        ({"containers_per_host": 3}, "containers_per_host: 3 cannot share 4 chips"),
        ({"devices_per_worker": 4}, "follows from the type"),
        ({"type": "h100-80gb-8", "nodes": 2}, "GPUDirect-TCPX: name .* gpu_networks"),
        ({"gpu_networks": ["a"]}, "not for v5litepod-16"),
        (
            {**H100, "gpu_networks": ["a"]},
            "over 4 networks beside the cluster's own, and gpu_networks names 1",
        ),
        ({**H100, "host_network": True}, "do not go with host_network: true"),
        ({"restart_exit_codes": "1"}, "max_restarts: 0"),
        ({"restart_on_user_code_failure": True}, "max_restarts: 0"),
        (
            {"restart_on_user_code_failure": True, "restart_exit_codes": "1", "max_restarts": 1},
            "leave restart_exit_codes out",
        ),
        ({"restart_exit_codes": "0", "max_restarts": 1}, "'0' is no exit code"),
        ({"restart_exit_codes": "5-3", "max_restarts": 1}, "'5-3' is no exit code"),
        ({"restart_exit_codes": "x", "max_restarts": 1}, "'x' is no exit code"),
        ({"env": {"MY_TOKEN": "x"}}, "MY_TOKEN sounds like a secret"),
        ({"wait": False}, "wait: false needs limits.workload_s"),
        (
            {"wait": False, "limits": {"workload_s": 9, "queue_s": None}},
            "wait: false needs limits.queue_s, after which nobody waits for its turn any more",
        ),
        ({"lock": True}, "for clusters without a queue"),
        ({"ramdisk": {"by": "memory"}}, "belong together"),
        ({"ramdisk": {"size": "1GiB"}}, "belong together"),
        ({"ramdisk": {"directory": "/"}}, "a folder of its own"),
        ({"ramdisk": {"directory": "usr/local"}}, "would hide the image's /usr"),
        ({"shared": {"directory": "/opt/", "claim": "c"}}, "would hide the image's /opt/slicebench"),
        ({"debug_dump": {"to": "/tmp"}}, "debug_dump.to"),
        ({"pathways": {**PATHWAYS, "proxy_image": "p:jax_0.9.0"}}, "of one JAX: .*0.10.0.*0.9.0"),
        ({"pathways": {**PATHWAYS, "max_slice_restarts": 2}}, "for elastic_slices"),
        ({"pathways": {**PATHWAYS, "headless": True}}, "never ends by itself"),
        ({"pathways": {**PATHWAYS, "elastic_slices": 3}}, "elastic_slices: 3 of slices: 2 may be missing"),
        ({"pathways": PATHWAYS, "type": "l4-8"}, "Pathways runs on TPUs"),
        ({"tpu_type": "v5p-8"}, "tpu_type"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=words):
        config(**fields)


def test_a_file_is_refused_at_its_line_and_in_words(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "kind: gke\ncluster: {nam: a, make: {install: false}, capacity: rented}\ntype: v5e-8\n"
        "debug_dump: {to: here}\nmax_restart: 1\n"
        "limits: {ttl_s: -1}\ncpu: much\n"
    )
    with pytest.raises(BadInput) as refusal:
        load_target(path)
    assert [str(problem).removeprefix(str(path)) for problem in refusal.value.problems] == [
        ":2:1: name is missing, write name: …",
        ":2:26: unknown key 'install', write it below queueing:",
        ":2:11: unknown key 'nam', did you mean 'name'?",
        ":3:1: type: 'v5e-8' is no accelerator type of GKE, did you mean v5litepod-8?",
        ":5:1: unknown key 'max_restart', did you mean 'max_restarts'?",
        ":2:43: capacity must be spot, on_demand, reservation or flex_start, not 'rented'",
        ":7:1: cpu must be a number of processors, such as 24 or 500m, not 'much'",
        ":4:14: to must be a folder of a bucket, such as gs://my-bucket/dumps, not 'here'",
        ":6:10: ttl_s must be at least 0, not -1",
    ]


def test_workers_follow_from_the_type_and_devices_may_be_chosen_on_cpus() -> None:
    assert config().with_choices(None, None) == config()
    assert config().with_choices(8, None) == config()
    with pytest.raises(BadInput, match="--workers 3"):
        config().with_choices(3, None)
    with pytest.raises(BadInput, match="follow from its type"):
        config().with_choices(None, 4)
    assert config(type="cpu").with_choices(None, 4).devices_per_worker == 4


def test_images_of_pathways_are_compared_with_the_program() -> None:
    images = {**PATHWAYS, "colocated_python_image": "c:python_3.12-jax_0.10.0"}
    pathways = Pathways.model_validate(images)
    assert pathways.mismatches("0.10.0", "3.12") == pathways.mismatches(None, None) == []
    assert len(pathways.mismatches("0.9.0", None)) == 3
    assert pathways.mismatches(None, "3.11") == [
        "c:python_3.12-jax_0.10.0 has Python 3.12, and the program Python 3.11"
    ]
    floating = {"server_image": "r/s", "proxy_image": "r/p:latest"}
    assert Pathways.model_validate(floating).unpinned() == ["r/s", "r/p:latest"]
    pinned = {"server_image": f"r/s@sha256:{'0' * 64}", "proxy_image": "r/p:1"}
    assert Pathways.model_validate(pinned).unpinned() == []
