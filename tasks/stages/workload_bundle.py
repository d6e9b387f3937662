"""All that a cluster says of a workload, in one redacted archive to send to somebody who can help."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    DEPLOYMENT,
    LOCAL_QUEUE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    SERVICE,
    WORKLOAD_PRIORITY_CLASS,
    Kind,
)
from tasks.cloud.named_file import refuse_there, write_named
from tasks.explain.told import MOST_EVIDENCE
from tasks.stages.workload_desk import Desk
from tasks.stages.workload_explained import Explained, everything, explanation
from tasks.stages.workload_redaction import BundleRedaction
from tasks.stages.workload_secrets import held
from tasks.stages.workloads import listing
from tasks.targets.kube_objects import Object, Objects, name, spec
from tasks.targets.kube_pods import container_names

_TAIL = 2000
"""Lines of each pod's log."""
_CONTROLLER_TAIL = 300
_MOST_PODS = 64
"""Pods whose logs are in it: the first of a thousand say what the others do."""

_CONTROLLERS = ("kueue-system", "jobset-system")


@dataclass
class _Bundle:
    """What is to be written, by name, and what could not be asked."""

    redaction: BundleRedaction
    files: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def objects(self, path: str, found: Sequence[Object]) -> None:
        self.files[path] = json.dumps(list(map(self.redaction.object, found)), indent=1, default=str)

    def text(self, path: str, text: str) -> None:
        self.files[path] = self.redaction.text(text)


def write_bundle(desk: Desk, workload: str, file: Path, *, force: bool = False) -> Sequence[str]:
    """Writes the archive (.tar.gz, for nobody else to read); returns what could not be asked.

    What is a secret by its name (of a variable, a flag, an annotation), by its form, or because a Secret that the pods
    use holds it, is taken out of objects, events and logs. Raises BadInput (it is there, and no `force`),
    KubernetesError, InfrastructureError when it cannot be written.
    """
    refuse_there(file, force=force)
    objects, unknown = everything(desk, workload)
    asked = [objects.jobset, objects.workload, *objects.jobs, *objects.pods, *objects.events]
    secret = held(desk, asked)
    redaction = BundleRedaction(asked, secret.values, secret.names)
    bundle = _Bundle(redaction, missing=[*unknown, *secret.unknown])
    _of_workload(bundle, objects)
    _of_cluster(bundle, desk, objects)
    bundle.text("explanation.txt", "\n".join(_words(explanation(desk, workload))))
    rows = listing(desk, "EVERYTHING", "")
    told = [
        f"{row.name} {row.status} {row.reason} needed={row.needed} running={row.running} done={row.done}"
        for row in rows
    ]
    bundle.text("workloads.txt", "\n".join(told))
    _logs(bundle, desk, objects.pods[:_MOST_PODS], desk.namespace, "logs", _TAIL)
    bundle.text("missing.txt", "\n".join(bundle.missing))
    write_named(file, _packed(file, bundle.files), force=force, mode=0o600)
    return bundle.missing


def _of_workload(bundle: _Bundle, objects: Objects) -> None:
    for path, found in (
        ("jobset.json", [objects.jobset] if objects.jobset else []),
        ("workload.json", [objects.workload] if objects.workload else []),
        ("jobs.json", objects.jobs),
        ("pods.json", objects.pods),
        ("events.json", objects.events),
    ):
        bundle.objects(path, found)


def _of_cluster(bundle: _Bundle, desk: Desk, objects: Objects) -> None:
    for kind in (
        LOCAL_QUEUE,
        CLUSTER_QUEUE,
        RESOURCE_FLAVOR,
        WORKLOAD_PRIORITY_CLASS,
        PRIORITY_CLASS,
        SERVICE,
    ):
        bundle.objects(f"cluster/{kind.plural}.json", _asked(bundle, desk, kind))
    used = {str(spec(pod).get("nodeName")) for pod in objects.pods}
    nodes = [one for one in _asked(bundle, desk, NODE) if not used - {"None"} or name(one) in used]
    bundle.objects("cluster/nodes.json", nodes)
    for space in _CONTROLLERS:
        bundle.objects(f"cluster/{space}/deployments.json", _asked(bundle, desk, DEPLOYMENT, space))
        pods = _asked(bundle, desk, POD, space)
        _logs(bundle, desk, pods, space, f"cluster/{space}", _CONTROLLER_TAIL)


def _asked(bundle: _Bundle, desk: Desk, kind: Kind, space: str | None = None) -> Sequence[Object]:
    try:
        return desk.all(kind, namespace=space)
    except KubernetesError as error:
        bundle.missing.append(str(error))
        return ()


def _logs(bundle: _Bundle, desk: Desk, pods: Sequence[Object], space: str, folder: str, tail: int) -> None:
    for pod in pods:
        for container in container_names(pod):
            try:
                text = desk.kube.log(name(pod), space, container=container, tail=tail)
            except KubernetesError as error:
                bundle.missing.append(str(error))
                continue
            bundle.text(f"{folder}/{name(pod)}.{container}.log", text)


def _words(told: Explained) -> list[str]:
    found = told.found
    lines = [f"{told.name} in namespace {told.namespace}: {found.state} ({found.reason}): {found.message}"]
    lines += [f"attempt {found.attempt}, restarts {found.restarts}, evictions {found.evictions}"]
    for trouble in told.troubles:
        lines += [f"{trouble.what} ({trouble.name})"]
        lines += [f"  {line.place}: {line.text}" for line in trouble.evidence[:MOST_EVIDENCE]]
    return lines + [f"{label}: {link}" for label, link in told.links]


def _packed(file: Path, files: Mapping[str, str]) -> bytes:
    folder, out = file.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz"), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
