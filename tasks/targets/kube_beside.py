"""What stands beside the workers of a pod: a container that is up before they start, and ends after them.

Of Kubernetes' own kind (an initContainer with restartPolicy Always), so that a Job's pod is over when its program is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runtime.contract.braces import filled
from runtime.contract.pod import TOKEN_VARIABLE
from runtime.contract.sidecar import (
    AT_VARIABLE,
    CERTIFICATES_VARIABLE,
    Sidecar,
    store_of,
    straight,
)
from tasks.config import size
from tasks.targets.kube_submission import Object, Parts, Submission, given, literal, literals, variables

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

LOOPBACK = "127.0.0.1"
PORT, ADMIN, FORWARD = 9081, 9082, 9080
PROXY_CPU, PROXY_MEMORY = "250m", "128MiB"
"""What the encrypting proxy asks for where workers ask for some: its memory is its bar in docs/performance.md."""
KEYS, CERTIFICATES = "/var/run/slicebench/keys", "/var/run/slicebench/certificates"


def parts(config: GkeTargetConfig, submission: Submission) -> Parts:
    """Returns the container beside the workers, and what they need for it; nothing where none is to stand there."""
    sidecar = submission.sidecar
    parts = Parts()
    if sidecar is None:
        return parts
    known = _known(config, submission, sidecar)
    mounts: list[Object] = []
    if shares(sidecar):
        mounts.append({"name": "certificates", "mountPath": str(known["certificates"])})
        parts.volumes.append({"name": "certificates", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}})
        parts.mounts.append({**mounts[0], "readOnly": True})
    if submission.secret_files:
        items = [
            {"key": key, "path": name}
            for key, name in zip(submission.secret_files, sidecar.files, strict=True)
        ]
        # Files of a Secret are root's, and images may run as anybody: who sees them is said by who mounts them.
        keys = {"secretName": submission.secret_name, "items": items, "defaultMode": 0o444}
        parts.volumes.append({"name": "keys", "secret": keys})
        mounts.append({"name": "keys", "mountPath": KEYS, "readOnly": True})
    parts.sidecars.append(_container(config, submission, sidecar, known, mounts))
    parts.env |= {
        AT_VARIABLE: f"{LOOPBACK}:{known['port']},{LOOPBACK}:{known['forward']}",
        CERTIFICATES_VARIABLE: str(known["certificates"]),
    }
    return parts


def workload_env(config: GkeTargetConfig, submission: Submission) -> dict[str, str | Object]:
    """Returns the sidecar's variables for a program that no supervisor of ours starts."""
    sidecar = submission.sidecar
    if sidecar is None or submission.supervised:
        return {}
    known = _known(config, submission, sidecar)
    more = {name: filled(value, known) for name, value in sidecar.workload_env.items()}
    return literals({**more, **straight({**config.env, **submission.env, **more})})


def told(sidecar: Sidecar | None) -> Sidecar | None:
    """Returns what supervisors in pods are told of it: nothing to start, and no secret."""
    return sidecar and replace(sidecar, command=(), env={}, ready="", files={})


def _container(
    config: GkeTargetConfig,
    submission: Submission,
    sidecar: Sidecar,
    known: Mapping[str, str | int],
    mounts: list[Object],
) -> Object:
    secrets: dict[str, str | Object] = {
        key: {"secretKeyRef": {"name": submission.secret_name, "key": key}}
        for key in submission.secrets
        if key != TOKEN_VARIABLE
    }
    return given(
        name=sidecar.name,
        image=sidecar.image or submission.image,
        restartPolicy="Always",
        command=[literal(filled(word, known)) for word in sidecar.command],
        env=variables(
            literals(config.env),
            literals(submission.env),
            secrets,
            literals({name: filled(value, known) for name, value in sidecar.env.items()}),
        ),
        ports=[{"containerPort": known[name]} for name in ports(sidecar)],
        resources=given(requests=requests(config)),
        startupProbe=_probe(sidecar, known, on_loopback=config.uses_host_network),
        volumeMounts=mounts,
    )


def requests(config: GkeTargetConfig) -> dict[str, str]:
    """Returns what the container asks for, as Kubernetes reads it.

    It has no limits: to be killed for its memory would fail what workers write.
    Kueue admits no pod that asks for what its queue has no quota of, and many queues (xpk's) know chips alone. So by
    itself the proxy asks only for what the target has the workers ask for, which such a queue has to have anyway.
    """
    one = config.encryption or config.sidecar
    if one is None:
        return {}
    cpu, memory = one.cpu, one.memory
    if config.encryption is not None:
        cpu = cpu or (PROXY_CPU if config.cpu else None)
        memory = memory or (PROXY_MEMORY if config.memory else None)
    return given(cpu=cpu, memory=None if memory is None else str(size.in_bytes(memory)))


def ports(sidecar: Sidecar) -> list[str]:
    """Returns at which of `port`, `admin` and `forward` it listens: on its host's network no two pods may have one."""
    texts = _texts(sidecar)
    return [
        name
        for name in ("port", "admin", "forward")
        if (name == "port" and sidecar.port) or any(f"{{{name}}}" in text for text in texts)
    ]


def numbers(sidecar: Sidecar) -> dict[str, int]:
    """Returns the numbers of its ports in a pod."""
    port = sidecar.port or PORT
    admin, forward = [one for one in (ADMIN, FORWARD, PORT) if one != port][:2]
    return {"port": port, "admin": admin, "forward": forward}


def _probe(sidecar: Sidecar, known: Mapping[str, str | int], *, on_loopback: bool) -> Object | None:
    """Returns how the kubelet sees that it is up: from outside of the pod, but for a file. `on_loopback`: the pod's is
    the kubelet's own.
    """
    place = urlsplit(filled(sidecar.ready, known))
    at = {"host": LOOPBACK} if on_loopback else {}
    how: Mapping[str, Object] = {
        "http": {"httpGet": {"path": place.path or "/", "port": place.port, **at}},
        "tcp": {"tcpSocket": {"port": place.port, **at}},
        "file": {"exec": {"command": ["test", "-s", place.path]}},
    }
    if place.scheme not in how:
        return None
    tries = math.ceil(sidecar.ready_s)
    return {**how[place.scheme], "periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": tries}


def shares(sidecar: Sidecar) -> bool:
    """Says whether workers see a folder of it."""
    return bool(sidecar.certificates) or any("{certificates}" in text for text in _texts(sidecar))


def _texts(sidecar: Sidecar) -> tuple[str, ...]:
    return (*sidecar.env.values(), *sidecar.workload_env.values(), *sidecar.command, sidecar.ready)


def _known(config: GkeTargetConfig, submission: Submission, sidecar: Sidecar) -> dict[str, str | int]:
    return {
        **numbers(sidecar),
        # On its host's network others would reach it, and the kubelet asks there.
        "address": LOOPBACK if config.uses_host_network else "0.0.0.0",
        "python": "python",
        "held": "mounted",
        # In a pod of its own network nobody else connects, and containers may have users of their own.
        "lend": "own" if config.uses_host_network else "all",
        "store": store_of({**config.env, **submission.env}),
        "files": KEYS,
        "certificates": sidecar.certificates or CERTIFICATES,
    }
