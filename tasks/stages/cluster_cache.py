"""Pulls an image onto the nodes of a cluster before workloads want it, and waits until every node has it.

What pulls is a DaemonSet, which nothing ends by itself. So it belongs to a Job that has no pods, only a deadline: over
that the Job ends, is deleted because its time to live is none, and Kubernetes collects the DaemonSet with its pods,
whoever was killed meanwhile.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.image_names import image_name
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.kubernetes_kinds import DAEMON_SET, JOB, NODE, POD, Object, selector
from tasks.cloud.kubernetes_labels import NODE_POOL
from tasks.config.accelerators import GPU_LABEL, TPU_LABEL
from tasks.targets.kube_objects import metadata, spec, status
from tasks.targets.kube_queues import MANAGED

Say = Callable[[str], None]

_LABEL = "slicebench/cached-image"
_ACCELERATORS = (TPU_LABEL, GPU_LABEL)
_CANNOT_START = ("CreateContainerError", "RunContainerError", "CrashLoopBackOff")
"""What a container waits for that was pulled: an image need not have the command that keeps it."""
_NOT_PULLED = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
)
_TELL_S = 30.0
_LINGER_S = 60.0
"""For so long what pulls may outlive the time for pulling, before it goes by itself."""


class NotCached(InfrastructureError):
    """Some nodes do not have the image in time, or it cannot be seen whether they have."""


@dataclass(frozen=True)
class Cached:
    """How far it is: nodes that have the image, and of each that lacks it, why as far as its pod says."""

    have: Sequence[str]
    lack: Mapping[str, str]


def cache_image(
    api: Kubernetes,
    image: str,
    pools: Sequence[str] = (),
    *,
    say: Say = lambda line: None,
    limit_s: float = 1800.0,
    look_s: float = 2.0,
    linger_s: float = _LINGER_S,
) -> Cached:
    """Lets the nodes of these pools have an image; no pools: all with accelerators, or all where none has any.

    A DaemonSet pulls it, which asks for no processor, memory or chip, and goes when it is done or given up; killed
    meanwhile, it goes `linger_s` after the time is over, and until then the same call goes on with it. Raises BadInput,
    NotCached, KubernetesError.
    """
    image_name(image)
    wanted = _pools(api.list(NODE).items, pools)
    name = f"slicebench-cache-{hashlib.sha256(image.encode()).hexdigest()[:10]}"
    deadline = _deadline(f"{name}-{secrets.token_hex(4)}", api.access.namespace, limit_s + linger_s)
    owner = api.apply(deadline, kind=JOB)
    try:
        manifest = daemon_set(name, image, wanted, owner)
        api.apply(manifest, kind=DAEMON_SET)
        return _await(api, manifest, wanted, say, limit_s, look_s)
    finally:
        _take_away(api, name, str(metadata(owner)["name"]), limit_s + linger_s, say)


def _take_away(api: Kubernetes, name: str, owner: str, within_s: float, say: Say) -> None:
    """Lets what pulled go. How the pulling ended is what counts: that it stays for a while is told."""
    try:
        api.delete(DAEMON_SET, name)
        api.delete(JOB, owner)
    except KubernetesError as error:
        say(f"DaemonSet {name} goes by itself within {within_s:.0f} s; it cannot be taken away now: {error}")


def _deadline(name: str, namespace: str, after_s: float) -> Object:
    """Returns the Job that ends, and goes, after so long: it never has a pod."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.name,
        "metadata": {"name": name, "namespace": namespace, "labels": MANAGED},
        "spec": {
            "parallelism": 0,
            "activeDeadlineSeconds": math.ceil(after_s),
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": pod},
        },
    }


def daemon_set(name: str, image: str, pools: Sequence[str], owner: Object) -> dict[str, Any]:
    """Returns the DaemonSet that has the nodes of these pools pull an image, whatever taints they have."""
    labels = {_LABEL: name, **MANAGED}
    there = metadata(owner)
    belongs = {"apiVersion": JOB.api_version, "kind": JOB.name, "name": there["name"], "uid": there["uid"]}
    container = {
        "name": "pull", "image": image, "imagePullPolicy": "Always", "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": "0"}},
    }  # fmt: skip
    term = {"matchExpressions": [{"key": NODE_POOL, "operator": "In", "values": list(pools)}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    pod = {
        "containers": [container], "affinity": affinity, "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
    }  # fmt: skip
    return {
        "apiVersion": DAEMON_SET.api_version,
        "kind": DAEMON_SET.name,
        "metadata": {
            "name": name,
            "namespace": there["namespace"],
            "labels": labels,
            "ownerReferences": [belongs],
        },
        "spec": {
            "selector": {"matchLabels": {_LABEL: name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def seen(nodes: Iterable[str], pods: Iterable[Object]) -> Cached:
    """Returns which nodes have the image, by what the pods that pull it say."""
    have: list[str] = []
    lack = dict.fromkeys(nodes, "no pod there yet")
    for pod in pods:
        node = str(spec(pod).get("nodeName", ""))
        if node not in lack:
            continue
        why = _lacking(pod)
        if why is None:
            have.append(node)
            del lack[node]
        else:
            lack[node] = why
    return Cached(tuple(sorted(have)), lack)


def _lacking(pod: Object) -> str | None:
    """Returns why a pod has not pulled its image; None: it has."""
    for one in status(pod).get("containerStatuses") or []:
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason", ""))
        if reason in _NOT_PULLED:
            return f"{reason}: {waiting.get('message', '')}".rstrip(": ")
        if one.get("imageID") or not waiting or reason in _CANNOT_START:
            return None
        return reason or "it is being pulled"
    return "it is being pulled"


def _pools(nodes: Iterable[Object], pools: Sequence[str]) -> list[str]:
    """Returns the pools that are meant. Raises BadInput where they have no nodes."""
    labels = [metadata(one).get("labels") or {} for one in nodes]
    there = {str(one[NODE_POOL]) for one in labels if NODE_POOL in one}
    if not there:
        raise BadInput("the cluster has no nodes of any pool: there is nothing to pull the image onto")
    if unknown := sorted(set(pools) - there):
        raise BadInput(
            f"the cluster has no nodes of pool {', '.join(unknown)}",
            fix=f"name one of {', '.join(sorted(there))}",
        )
    fast = {
        str(one[NODE_POOL])
        for one in labels
        if NODE_POOL in one and any(label in one for label in _ACCELERATORS)
    }
    return sorted(set(pools) or fast or there)


def _await(
    api: Kubernetes, manifest: Object, pools: Sequence[str], say: Say, limit_s: float, look_s: float
) -> Cached:
    began = time.monotonic()
    labels, told, next_word = selector({_LABEL: str(metadata(manifest)["name"])}), "", _TELL_S
    while True:  # nodes come and go meanwhile
        nodes = [
            str(metadata(one)["name"])
            for one in api.list(NODE).items
            if (metadata(one).get("labels") or {}).get(NODE_POOL) in pools
        ]
        found = seen(nodes, api.list(POD, api.access.namespace, labels=labels).items)
        if not found.lack:
            return found
        waited = time.monotonic() - began
        first = next(iter(found.lack.items()))
        what = f"{len(found.have)} of {counted(len(nodes), 'node')} have it; {first[0]}: {first[1]}"
        if waited >= limit_s:
            raise NotCached(f"{what}; given up after {limit_s:.0f} s")
        failing = next((why for why in found.lack.values() if why.startswith(_NOT_PULLED)), "")
        if failing.partition(":")[0] != told or waited >= next_word:
            told, next_word = failing.partition(":")[0], waited + 2 * _TELL_S
            say(what)
        time.sleep(look_s)
