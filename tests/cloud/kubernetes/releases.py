"""For tests: the manifests of JobSet and Kueue as their releases have them, in small, and a server that has them.

with Releases.served() as releases:
    releases.queueing()            # the part of a cluster's config that names them, with the right hashes
    releases.put("kueue", "v0.20.0")
    releases.asked                 # the paths that were fetched
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

NEWEST = {"jobset": "v0.12.0", "kueue": "v0.19.2"}
_KINDS: dict[str, list[tuple[str, str, str, bool]]] = {
    "jobset": [("jobset.x-k8s.io", "jobsets", "JobSet", True)],
    "kueue": [
        ("kueue.x-k8s.io", "workloads", "Workload", True),
        ("kueue.x-k8s.io", "localqueues", "LocalQueue", True),
        ("kueue.x-k8s.io", "clusterqueues", "ClusterQueue", False),
        ("kueue.x-k8s.io", "resourceflavors", "ResourceFlavor", False),
        ("kueue.x-k8s.io", "workloadpriorityclasses", "WorkloadPriorityClass", False),
        ("kueue.x-k8s.io", "topologies", "Topology", False),
        ("kueue.x-k8s.io", "admissionchecks", "AdmissionCheck", False),
        ("kueue.x-k8s.io", "cohorts", "Cohort", False),
    ],
}
_VERSIONS = {"jobset": ["v1alpha2"], "kueue": ["v1beta1", "v1beta2"]}


def release(name: str, version: str = "") -> list[dict[str, Any]]:
    """Returns the objects of a release, in the order in which kustomize writes them."""
    version = version or NEWEST[name]
    space = f"{name}-system"
    there = {"namespace": space}
    manager = f"{name}-controller-manager"
    labels = {"control-plane": "controller-manager"}
    account = {"kind": "ServiceAccount", "name": manager, "namespace": space}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{name}-manager-role"}
    hooks = [{"name": f"m{name}.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None"}]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}},
        *(_definition(group, plural, kind, spaced, _VERSIONS[name]) for group, plural, kind, spaced in _KINDS[name]),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": manager, **there}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": f"{name}-manager-role", "creationTimestamp": None},
            "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{name}-manager-rolebinding"}, "roleRef": role, "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-webhook-server-cert", **there}},
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{name}-webhook-service", **there},
            "spec": {"ports": [{"port": 443, "protocol": "TCP", "targetPort": 9443}], "selector": labels},
        },
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": manager, "labels": labels, **there},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": manager,
                        "containers": [
                            {
                                "name": "manager", "image": f"registry.k8s.io/{name}/{name}:{version}",
                                "command": ["/manager"],
                                "resources": {
                                    "limits": {"cpu": "2", "memory": "512Mi"},
                                    "requests": {"cpu": "500m", "memory": "512Mi"},
                                },
                            }
                        ],
                    },
                },
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"{name}-validating-webhook-configuration"}, "webhooks": hooks,
        },
    ]  # fmt: skip


def _definition(group: str, plural: str, kind: str, spaced: bool, versions: list[str]) -> dict[str, Any]:
    told = [
        {"name": one, "served": True, "storage": one == versions[-1], "subresources": {"status": {}},
         "schema": {"openAPIV3Schema": {"type": "object"}}}
        for one in versions
    ]  # fmt: skip
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "names": names, "scope": "Namespaced" if spaced else "Cluster", "versions": told}
    meta = {"name": f"{plural}.{group}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
    }


def written(objects: list[dict[str, Any]]) -> bytes:
    """Returns manifests as a file."""
    return yaml.safe_dump_all(objects, sort_keys=False).encode()


def in_files(folder: Path) -> str:
    """Writes the newest of both as files; returns the part of a config that names them, as one word of a command."""
    named = []
    for name in NEWEST:
        content, file = written(release(name)), (folder / f"{name}.yaml").resolve()
        file.write_bytes(content)
        named.append(f"{name}: {{manifests: {file}, sha256: {hashlib.sha256(content).hexdigest()}}}")
    return f"queueing={{{', '.join(named)}}}"


@dataclass
class Releases:
    """A server that has manifests. `files` by path may be changed, `redirects` too; `asked` are the paths fetched."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    busy: int = 0
    """So many of the next requests are answered with 503."""
    asked: list[str] = field(default_factory=list)

    @classmethod
    @contextlib.contextmanager
    def served(cls) -> Iterator[Releases]:
        """Serves the newest of both."""
        handler = type("Handler", (_Handler,), {})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        releases = cls(f"http://127.0.0.1:{server.server_port}")
        handler.releases = releases  # type: ignore[attr-defined]
        for name, version in NEWEST.items():
            releases.put(name, version)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield releases
        finally:
            server.shutdown()
            server.server_close()

    def put(self, name: str, version: str, content: bytes | None = None) -> bytes:
        """Puts a release there; returns it."""
        found = self.files[_path(name, version)] = content or written(release(name, version))
        return found

    def queueing(self, **versions: str) -> dict[str, Any]:
        """Returns the part of a cluster's config that names releases: the newest of what is not given."""
        return {name: self.controller(name, versions.get(name, newest)) for name, newest in NEWEST.items()}

    def controller(self, name: str, version: str) -> dict[str, Any]:
        """Returns one release's."""
        path = _path(name, version)
        sha256 = hashlib.sha256(self.files[path]).hexdigest()
        return {"version": version, "manifests": f"{self.address}{path}", "sha256": sha256}


def _path(name: str, version: str) -> str:
    return f"/{name}/releases/download/{version}/manifests.yaml"


class _Handler(BaseHTTPRequestHandler):
    releases: Releases

    def do_GET(self) -> None:
        self.releases.asked.append(self.path)
        if self.releases.busy:
            self.releases.busy -= 1
            self._answer(503)
        elif self.path in self.releases.redirects:
            self._answer(302, location=self.releases.redirects[self.path])
        elif self.path in self.releases.files:
            self._answer(200, self.releases.files[self.path])
        else:
            self._answer(404)

    def _answer(self, code: int, content: bytes = b"", location: str = "") -> None:
        self.send_response(code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing."""
