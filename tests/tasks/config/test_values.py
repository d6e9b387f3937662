"""Whatever stands in a field of a target, what is wrong is told in our words, at its place, and nothing breaks."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from runtime.contract.errors import BadInput
from tasks.config.envfile import SET_IN_PODS
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar import BESIDE
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.kube_template import where_it_is
from tasks.targets.target_file import checked_target
from tests.tasks.targets.kube_made import PATHWAYS, config

GKE = {"kind": "gke", "context": "c", "type": "cpu"}
FULL: Mapping[type[BaseModel], dict[str, Any]] = {
    LocalTargetConfig: {"kind": "local"},
    SshTargetConfig: {"kind": "ssh", "user": "me", "hosts": [{"address": "a"}]},
    TpuVmTargetConfig: {"kind": "tpu_vm", "type": "v6e-4", "zones": ["us-east5-b"]},
    GkeTargetConfig: GKE,
}
INSIDE: dict[str, Any] = {
    "cluster": {"name": "c", "location": "us-east5-b", "make": {}},
    "build": {"repository": "r/i"},
    "shared": {"directory": "/mnt", "claim": "c"},
    "ramdisk": {"directory": "/local"},
    "debug_dump": {"to": "gs://bucket/x"},
    "ops_agent": {},
    "tensorboard": {
        "instance": "projects/p/locations/l/tensorboards/1",
        "logdir": "gs://bucket/x",
        "image": "i:1",
    },
    "pathways": PATHWAYS,
    "jump": {"address": "j"},
    "encryption": {"keys": {"bucket": "file:/k.json"}},
    "sidecar": {"name": "s", "command": ["x"]},
}
"""What a mapping within a target needs to be right but for the field that is tried."""

WRONG: tuple[Any, ...] = (
    None, True, 0.5, 10**30, float("inf"), "", "a b", "é" * 300, [None, True, "a b"], {"a b": {"c": 1}},
)  # fmt: skip
FOREIGN = re.compile(
    r"input should|should be|should have|valid (integer|string|dictionary|number|boolean|tuple|list|datetime)|"
    r"unable to|instance of|greater than or|extra inputs|field required|at least \d+ (item|char)|type=|(?-i:None)\b",
    re.IGNORECASE,
)
"""How pydantic words what it finds."""


def paths(model: type[BaseModel], above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the path of each field of a model, and of those within it."""
    for name, field in model.model_fields.items():
        if name == "kind" or (name in BESIDE and model is not LocalTargetConfig):  # the same in all targets
            continue
        name = field.alias or name
        yield (*above, name)
        for inner in _models(field.annotation):
            many = name == "hosts"
            yield from paths(inner, (*above, name, 0) if many else (*above, name))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


EACH = [
    pytest.param(model, path, id=f"{FULL[model]['kind']}.{'.'.join(map(str, path))}")
    for model in FULL
    for path in paths(model)
]


def with_value(model: type[BaseModel], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Returns a target that is right, but that it has this value there."""
    whole = copy.deepcopy(FULL[model])
    if path[0] == "cluster":
        del whole["context"]
        whole["type"] = "v5litepod-16"
    into: Any = whole
    for part in path[:-1]:
        if isinstance(part, str) and part not in into:
            into[part] = copy.deepcopy(INSIDE.get(part, {}))
        into = into[part]
    into[path[-1]] = value
    return whole


@pytest.mark.parametrize(("model", "path"), EACH)
def test_a_wrong_value_is_told_in_our_words_at_its_place(
    model: type[BaseModel], path: tuple[str | int, ...], tmp_path: Path
) -> None:
    file = tmp_path / "t.yaml"
    refused = 0
    for value in WRONG:
        file.write_text(json.dumps(with_value(model, path, value)).replace("Infinity", ".inf"))
        try:
            checked_target(file)
        except BadInput as refusal:
            refused += 1
            for problem in refusal.problems:
                assert problem.place is not None
                assert problem.place.line is not None
                assert problem.place.column is not None
                assert not FOREIGN.search(problem.what), f"{value!r}: {problem}"
                assert len(str(problem)) < 1200
    assert refused, "nothing at all is wrong there"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: gke\ncontext: c\ntype: cpu\nnodes: true\n", ":4:1: nodes must be a whole number, not true"),
        ("kind: gke\ncontext: c\ntype: cpu\nsmoke: 1\n", ":4:1: smoke must be true or false, not 1"),
        (
            "kind: gke\ncontext: c\ntype: cpu\nlimits:\n  queue_s: true\n",
            ":5:3: queue_s must be a whole number, not",
        ),
        ("kind: local\nworkers: true\n", ":2:1: workers must be a whole number, not true"),
        (
            "kind: ssh\nuser: me\nhosts: [a, {address: b, port: true}]\n",
            ":3:25: port must be a whole number, not true",
        ),
        ("kind: tpu_vm\ntype: v6e-4\nlimits: {queue_s: true}\n", ":3:10: queue_s must be a number, not true"),
        (
            "kind: gke\ncontext: c\ntype: cpu\nenv:\n  JOB_INDEX: x\n",
            ":5:3: env: JOB_INDEX is set by slicebench itself",
        ),
        ("kind: gke\ncontext: c\ntype: cpu\nenv:\n  SLICEBENCH_X: x\n", ":5:3: env: SLICEBENCH_X belongs to"),
        ("kind: gke\ncontext: c\ntype: cpu\ncpu: '0.0'\n", ":4:1: cpu must be a number of processors"),
        (
            "kind: gke\ncluster: {name: c, location: us-east5, zone: us-west4-a}\ntype: v5litepod-16\n",
            ":2:40: cluster: zone: us-west4-a is not in us-east5",
        ),
        (
            "kind: gke\ntype: v5litepod-16\ncluster: {name: c, make: {cluster_fields: {netwrk: x}}}\n",
            ":3:44: cluster_fields netwrk: Cluster has no field 'netwrk', did you mean 'network'?",
        ),
        (
            "kind: gke\ntype: v5litepod-16\ncluster: {name: c, make: {pool_fields: {config.spot: true}}}\n",
            ":3:41: pool_fields config.spot: that is said by capacity",
        ),
        ("kind: gke\ncontext: c\ntype: cpu\npathways: {}\n", ":4:1: server_image is missing"),
        (
            "kind: gke\ncontext: c\nkubeconfig: k\ntype: cpu\nlock: true\n",
            ":5:1: target: lock: true is for clusters",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_at_its_place(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as refusal:
        checked_target(file)
    assert f"t.yaml{told}" in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        (("cpu",), value) for value in (1, 0.5, "500m", "24", "1.0", 96)
    ] + [
        (("memory",), value) for value in ("1GiB", "512 MiB", "1.5TiB")
    ] + [
        (("cluster", "location"), value) for value in ("us-east5", "us-east5-b", "us-south1-ai1b")
    ] + [
        (("image",), value) for value in ("busybox", "r/i:T_1.x", "localhost:5000/a/b@sha256:" + 64 * "0", "[::1]:80/a")
    ] + [
        (("tolerations",), value) for value in ("google.com/tpu", ["a", "b.c/d_e"])
    ] + [
        (("node_selector",), {"cloud.google.com/gke-nodepool": "np-0", "a": ""}),
        (("wait",), True), (("slices",), 2), (("kubeconfig",), "~/my kube/config"), (("context",), "gke_p_us-east5_c"),
        (("priority",), "system.high"), (("queue",), None), (("scheduler",), "default-scheduler"),
    ],
)  # fmt: skip
def test_what_is_right_is_taken(fields: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(yaml.safe_dump(with_value(GkeTargetConfig, fields, value)))
    checked_target(file)


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("name", ["v5litepod-16", "h100-80gb-8", "cpu"])
def test_what_a_pod_is_told_of_its_place_cannot_be_said_in_env(name: str, slices: int) -> None:
    more = {"gpu_networks": []} if name.startswith("h100") else {}
    assert set(where_it_is(config(type=name, slices=slices, **more), "n")) <= SET_IN_PODS
