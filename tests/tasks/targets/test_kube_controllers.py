"""What is done about a controller that is there or not, and how its manifests are made to fit a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.kube_controllers import (
    JOBSET,
    KUEUE,
    MARK,
    choose,
    fits,
    fitted,
    in_order,
    is_deployment,
    memory_mi,
    tolerations_for,
    version_of,
)
from tests.cloud.kubernetes.releases import release

A, B = "a" * 64, "b" * 64


def there(version: str, mark: str = "", place: str = "") -> dict[str, Any]:
    one = next(one for one in release("kueue", version) if one["kind"] == "Deployment")
    if place:
        one["metadata"]["namespace"], _, one["metadata"]["name"] = place.partition("/")
    one["metadata"]["annotations"] = {MARK: mark} if mark else {}
    return one


@pytest.mark.parametrize(
    ("found", "do", "told"),
    [
        (None, "install", "installing Kueue v0.19.2"),
        (there("v0.19.2", f"v0.19.2 {A}"), "fit", ""),
        (there("v0.19.2", f"v0.19.2 {B}"), "upgrade", "applying Kueue v0.19.2 again"),
        (there("v0.9.9", f"v0.9.9 {B}"), "upgrade", "taking Kueue from v0.9.9 to v0.19.2"),
        (there("v0.20.0", f"v0.20.0 {B}"), "keep", "Kueue v0.20.0 is there: it is not taken back to v0.19.2"),
        (
            there("v0.17.1"),
            "keep",
            "Kueue v0.17.1 is there, and was installed by others: it stays as it is; v0.19.2",
        ),
        (there("v0.19.2"), "keep", "was installed by others: it stays as it is"),
        (there("v0.19.2", place="ours/my-kueue"), "keep", "is there as Deployment ours/my-kueue, and was"),
    ],
)
def test_what_is_done(found: Any, do: str, told: str) -> None:
    chosen = choose(KUEUE, found, "v0.19.2", A)
    assert (chosen.do, chosen.told[: len(told)] if do != "keep" else told in chosen.told) == (
        do,
        told if do != "keep" else True,
    )


def test_the_version_is_that_of_the_image() -> None:
    assert version_of(there("v0.17.1")) == "v0.17.1"
    other = there("v0.17.1")
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "registry:5000/kueue@sha256:12"
    assert version_of(other) == ""


def test_definitions_go_first_and_the_deployment_last() -> None:
    kinds = [one["kind"] for one in in_order(KUEUE, release("kueue"))]
    assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "CustomResourceDefinition"]
    assert kinds[-1] == "Deployment"
    assert len(kinds) == len(release("kueue"))


@pytest.mark.parametrize(
    ("part", "machines", "memory", "cpu", "count"),
    [
        (KUEUE, 2, "4096Mi", "2", 1),
        (KUEUE, 200, "6400Mi", "2", 1),
        (KUEUE, 1000, "32000Mi", "4", 2),
        (KUEUE, 9000, "49152Mi", "36", 2),
        (JOBSET, 1000, "4096Mi", "2", 2),
        (JOBSET, 9216, "11060Mi", "2", 2),
    ],
)
def test_a_controller_grows_with_the_machines(
    part: Any, machines: int, memory: str, cpu: str, count: int
) -> None:
    manifest = next(one for one in release(part.name) if is_deployment(part, one))
    made = fitted(part, manifest, machines, [], "v1.0.0 hash")
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"memory": memory, "cpu": cpu}
    assert int(container["resources"]["requests"]["memory"][:-2]) <= memory_mi(part, machines)
    assert made["spec"]["replicas"] == count
    assert made["metadata"]["annotations"] == {MARK: "v1.0.0 hash"}
    assert fits(part, made, machines)
    assert not fits(part, manifest, machines), "the manifest itself is left alone"


def test_controllers_go_to_the_machines_that_are_for_them_whatever_taint_these_have() -> None:
    taints = [
        {"key": "team", "value": "infra", "effect": "NoSchedule"},
        {"key": "bare", "effect": "NoExecute"},
        {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]
    nodes = [
        {"metadata": {"labels": {"cloud.google.com/gke-nodepool": "cpu"}}, "spec": {"taints": taints}},
        {
            "metadata": {"labels": {"cloud.google.com/gke-nodepool": "np-0"}},
            "spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]},
        },
    ]
    found = tolerations_for(nodes)
    assert found == [
        {"key": "team", "operator": "Equal", "value": "infra", "effect": "NoSchedule"},
        {"key": "bare", "operator": "Exists", "effect": "NoExecute"},
    ]
    manifest = next(one for one in release("jobset") if is_deployment(JOBSET, one))
    pod = fitted(JOBSET, manifest, 4, found)["spec"]["template"]["spec"]
    assert pod["tolerations"] == found
    (preferred,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"][0]["values"] == ["cpu"]
