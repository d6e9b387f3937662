"""Containers beside the workers, which end after them: one copies XLA's dumps, one sends the host's metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tasks.config.sidecar_in_pods import OPS_AGENT, XLA_DUMP
from tasks.targets.kube_submission import Object, Parts, Submission, from_field, literal

if TYPE_CHECKING:
    from tasks.config.gke_parts import DebugDump, OpsAgent
    from tasks.config.gke_target import GkeTargetConfig

DUMPS = "/xla-dump"

# Copies while the worker runs, so that a host that is lost takes the last interval with it and no more; and once more
# when everything else in the pod has ended, however it did. `wait` is what lets the shell hear SIGTERM at once.
_COPY = """\
copy() { gcloud storage rsync --recursive "$FROM" "$TO/$POD_NAME" || true; }
trap 'copy; exit 0' TERM
while :; do sleep "$EVERY_S" & wait $!; copy; done
"""

_CPU, _MEMORY = "50m", str(128 << 20)

METRICS = ("cpu", "memory", "load", "disk", "filesystem", "network")
"""What of the host the collector reads; it arrives as workload.googleapis.com/system.KIND.…"""


def parts(config: GkeTargetConfig, submission: Submission) -> Parts:
    """Returns the containers that the config asks for, and what workers need for them."""
    parts = Parts()
    if config.debug_dump is not None:
        parts.mounts.append({"name": "xla-dump", "mountPath": DUMPS})
        parts.volumes.append({"name": "xla-dump", "emptyDir": {"sizeLimit": "20Gi"}})
        parts.sidecars.append(_copier(config.debug_dump))
    if config.ops_agent is not None:
        parts.volumes.append({"name": "host", "hostPath": {"path": "/"}})
        parts.sidecars.append(_collector(config.ops_agent, submission.name))
    return parts


def requests(config: GkeTargetConfig) -> dict[str, str]:
    """Returns what a container that slicebench puts beside workers asks for: a little of what these ask for.

    A namespace with a quota of processors or memory refuses pods of which a container asks for none; a queue that has
    no quota of them admits nothing that asks.
    """
    asked = {"cpu": _CPU} if config.cpu else {}
    return {**asked, "memory": _MEMORY} if config.memory else asked


def xla_flags(config: GkeTargetConfig, env: Mapping[str, str]) -> dict[str, str | Object]:
    """Returns XLA_FLAGS with dumps switched on beside what else they say; nothing where no dumps are wanted."""
    if config.debug_dump is None:
        return {}
    flags = [env["XLA_FLAGS"]] if env.get("XLA_FLAGS") else []
    return {"XLA_FLAGS": literal(" ".join([*flags, f"--xla_dump_to={DUMPS}"]))}


def _copier(dump: DebugDump) -> Object:
    return {
        "name": XLA_DUMP,
        "image": dump.image,
        "restartPolicy": "Always",
        "command": ["/bin/sh", "-c", literal(_COPY)],
        "env": [
            {"name": "FROM", "value": DUMPS},
            {"name": "TO", "value": literal(dump.to.rstrip("/"))},
            {"name": "EVERY_S", "value": str(dump.every_s)},
            {"name": "POD_NAME", "valueFrom": from_field("metadata.name")},
        ],
        "volumeMounts": [{"name": "xla-dump", "mountPath": DUMPS}],
    }


def _collector(agent: OpsAgent, workload: str) -> Object:
    return {
        "name": OPS_AGENT,
        "image": agent.image,
        "restartPolicy": "Always",
        "args": ["--config=env:COLLECTOR"],
        "env": [
            {"name": "POD_NAME", "valueFrom": from_field("metadata.name")},
            {"name": "NODE_NAME", "valueFrom": from_field("spec.nodeName")},
            {"name": "COLLECTOR", "value": literal(json.dumps(_collected(agent, workload)))},
        ],
        "volumeMounts": [
            {"name": "host", "mountPath": "/host", "readOnly": True, "mountPropagation": "HostToContainer"}
        ],
    }


def _collected(agent: OpsAgent, workload: str) -> Object:
    """Returns the collector's own configuration, where ${env:NAME} is a variable of its container."""
    attributes = {"workload": workload, "pod": "${env:POD_NAME}", "host.name": "${env:NODE_NAME}"}
    return {
        "receivers": {
            "hostmetrics": {
                "collection_interval": f"{agent.interval_s}s",
                "root_path": "/host",
                "scrapers": {kind: {} for kind in METRICS},
            }
        },
        "processors": {
            "batch": {},
            "resource": {
                "attributes": [
                    {"key": key, "value": value, "action": "upsert"} for key, value in attributes.items()
                ]
            },
        },
        "exporters": {"googlecloud": {}},
        "service": {
            "pipelines": {
                "metrics": {
                    "receivers": ["hostmetrics"],
                    "processors": ["resource", "batch"],
                    "exporters": ["googlecloud"],
                }
            }
        },
    }
