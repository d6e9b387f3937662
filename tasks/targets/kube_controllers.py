"""The controllers of JobSet and Kueue in a cluster: what is done about one, how its manifests are made to fit. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, JOB_SET, Kind, Object
from tasks.cloud.kubernetes_labels import NODE_POOL
from tasks.targets.cluster_requests import CPU_POOL
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import metadata, spec
from tasks.targets.kube_queues import MANAGED

MARK = "slicebench/manifests"
"""Annotation of a Deployment: release and hash of the manifests that we applied as a whole."""
_ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
_MI = 2**20
_MOST_MEMORY_MI = 48 * 1024
"""What fits on one of the usual CPU machines beside the rest; more would wait for a machine that never comes."""
_MANY_MACHINES = 500
"""From so many on there are two of each: one takes over at once where the other ends."""

Do = Literal["install", "upgrade", "fit", "keep"]


@dataclass(frozen=True)
class Part:
    """A controller. `kind` is what it serves; memory grows by `mi_a_machine`. `manager`: the Deployment's name where it
    is not the release's own.
    """

    name: str
    title: str
    namespace: str
    kind: Kind
    least_mi: int
    mi_a_machine: float
    cpus_a_thousand: float = 0.0
    manager: str = ""

    @property
    def deployment(self) -> str:
        """The name of its Deployment."""
        return self.manager or f"{self.name}-controller-manager"

    def as_(self, there: Object) -> Part:
        """Returns it as it is there: charts and operators have names and namespaces of their own."""
        meta = metadata(there)
        return replace(self, namespace=str(meta["namespace"]), manager=str(meta["name"]))


JOBSET = Part("jobset", "JobSet", "jobset-system", JOB_SET, 4096, 1.2)
KUEUE = Part("kueue", "Kueue", "kueue-system", CLUSTER_QUEUE, 4096, 32.0, 4.0)
NAMED = "app.kubernetes.io/name"
_ROLE, _MANAGERS = "app.kubernetes.io/component", ("controller", "manager")
"""By these labels releases, charts and operators alike say which of their Deployments is the controller."""


@dataclass(frozen=True)
class Choice:
    """What is done about a controller, and what people are told of it."""

    do: Do
    told: str = ""


def choose(part: Part, there: Object | None, version: str, sha256: str) -> Choice:
    """Returns what is done about a controller whose Deployment is there, or not.

    One that somebody else installed is used as it is. Ours goes to a later version, and never back to an earlier one:
    what it wrote by then, the earlier one may not be able to read.
    """
    if there is None:
        return Choice("install", f"installing {part.title} {version} (SHA-256 {sha256})")
    has, hashed = marked(there)
    if not has:
        running = version_of(there) or "of unknown version"
        other = f"; {version} was asked for" if running != version else ""
        usual = (part.namespace, part.deployment) == (
            metadata(there).get("namespace"),
            metadata(there)["name"],
        )
        where = "" if usual else f" as Deployment {metadata(there)['namespace']}/{metadata(there)['name']}"
        return Choice(
            "keep",
            f"{part.title} {running} is there{where}, and was installed by others: it stays as it is{other}",
        )
    if has == version and hashed == sha256:
        return Choice("fit")
    if _ordered(has) > _ordered(version):
        return Choice("keep", f"{part.title} {has} is there: it is not taken back to {version}")
    if has == version:
        return Choice(
            "upgrade", f"applying {part.title} {version} again: its manifests are others (SHA-256 {sha256})"
        )
    return Choice("upgrade", f"taking {part.title} from {has} to {version} (SHA-256 {sha256})")


def is_manager(deployment: Object) -> bool:
    """Whether a Deployment that is named after a controller is the controller, and no page that shows it."""
    return (metadata(deployment).get("labels") or {}).get(_ROLE) in _MANAGERS


def marked(deployment: Object) -> tuple[str, str]:
    """Returns release and hash that we wrote on a Deployment; empty where we did not install it."""
    version, _, sha256 = str((metadata(deployment).get("annotations") or {}).get(MARK, "")).partition(" ")
    return version, sha256


def version_of(deployment: Object) -> str:
    """Returns the release of a Deployment by its image's tag."""
    container = _manager(deployment)
    tag = str((container or {}).get("image", "")).partition("@")[0].rpartition(":")[2]
    return tag if re.fullmatch(r"v\d+\.\d+\.\d+\S*", tag) else ""


def in_order(part: Part, objects: Sequence[Object]) -> list[Object]:
    """Returns manifests in the order in which they are applied: the Deployment last.

    That it is there, with its mark, then says that all the rest is; what was cut off before is begun again.
    """
    first = {"Namespace": 0, "CustomResourceDefinition": 1}
    return sorted(objects, key=lambda one: 9 if is_deployment(part, one) else first.get(str(one["kind"]), 2))


def is_deployment(part: Part, manifest: Object) -> bool:
    """Whether a manifest is that of the controller itself."""
    return manifest["kind"] == "Deployment" and metadata(manifest).get("name") == part.deployment


def fitted(
    part: Part, manifest: Object, machines: int, tolerations: Sequence[Mapping[str, str]], mark: str = ""
) -> Object:
    """Returns a controller's Deployment for a cluster of so many machines, on the pool that is for controllers."""
    made: dict[str, Any] = deepcopy(dict(manifest))
    made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}), **MANAGED}
    if mark:
        made["metadata"]["annotations"] = {**(made["metadata"].get("annotations") or {}), MARK: mark}
    made["spec"]["replicas"] = max(int(made["spec"].get("replicas", 1)), replicas(machines))
    pod = made["spec"]["template"]["spec"]
    pod["tolerations"] = [*(pod.get("tolerations") or []), *(dict(one) for one in tolerations)]
    preferred = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": NODE_POOL, "operator": "In", "values": [CPU_POOL]}]},
    }
    affinity = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity[key] = [*(affinity.get(key) or []), preferred]
    container = _manager(made)
    if container is not None:
        container["resources"] = _resources(part, machines, container.get("resources") or {})
    return made


def fits(part: Part, there: Object, machines: int) -> bool:
    """Whether a controller that is there has the size for so many machines."""
    container = _manager(there) or {}
    limits = (container.get("resources") or {}).get("limits") or {}
    enough = int(spec(there).get("replicas", 1)) >= replicas(machines)
    # The server writes amounts its own way: 4096Mi comes back as 4Gi.
    return enough and amount(limits.get("memory", 0)) == memory_mi(part, machines) * _MI


def replicas(machines: int) -> int:
    """Returns how many of a controller there are to be."""
    return 2 if machines >= _MANY_MACHINES else 1


def memory_mi(part: Part, machines: int) -> int:
    """Returns the memory that a controller may take, MiB: it holds in it all that it watches."""
    return min(_MOST_MEMORY_MI, max(part.least_mi, math.ceil(part.mi_a_machine * machines)))


def tolerations_for(nodes: Iterable[Object]) -> list[dict[str, str]]:
    """Returns what controllers must tolerate to be on the pool that is for them; those of accelerators never."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for node in nodes:
        if (metadata(node).get("labels") or {}).get(NODE_POOL) != CPU_POOL:
            continue
        for taint in spec(node).get("taints") or []:
            key, value, effect = (str(taint.get(one, "")) for one in ("key", "value", "effect"))
            if key in _ACCELERATORS or key.startswith(
                ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
            ):
                continue
            same = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
            found[key, value, effect] = {"key": key, **same, **({"effect": effect} if effect else {})}
    return list(found.values())


def _resources(part: Part, machines: int, given: Mapping[str, Any]) -> dict[str, Any]:
    limits, requests = dict(given.get("limits") or {}), dict(given.get("requests") or {})
    limits["memory"] = f"{memory_mi(part, machines)}Mi"
    requests["memory"] = f"{max(512, memory_mi(part, machines) // 8)}Mi"
    if "cpu" in limits:
        limits["cpu"] = str(max(2, math.ceil(part.cpus_a_thousand * machines / 1000)))
    return {**given, "limits": limits, "requests": requests}


def _manager(deployment: Object) -> dict[str, Any] | None:
    pod = (spec(deployment).get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or []
    return next(
        (one for one in containers if one.get("name") == "manager"), containers[0] if containers else None
    )


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", version)[:3])
