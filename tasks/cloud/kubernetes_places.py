"""Places of JobSets as plans and leases write them down, without any secret, and the way back from them to a cluster.

A place is `context NAME`, or `context NAME of FILE` where the kubeconfig is another than ~/.kube/config; a scope is a
place and a namespace: `context kind-bench/default`. Whoever reads a ledger elsewhere needs a context of that name. What
was made there is written down with a sign of the API server's address, `context kind-bench#0d5e8f21/default`: a context
that leads to another cluster by now would find nothing there, and that is not the same as gone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.timing import Timing

_CONTEXT = re.compile(r"context (?P<name>.+?)(?:#(?P<sign>[0-9a-f]{8}))?(?: of (?P<files>/.+))?")


def place_of(context: str, kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the place of a context; the files that it is read from are part of it, unless they are the usual one."""
    files = str(Path(kubeconfig).expanduser().absolute()) if kubeconfig else environ.get("KUBECONFIG", "")
    return f"context {context} of {files}" if files.startswith("/") else f"context {context}"


def signed(scope: str, server: str) -> str:
    """Returns the scope with a sign of the API server that it leads to now."""
    place, _, namespace = scope.rpartition("/")
    match = _CONTEXT.fullmatch(place)
    if match is None:
        raise InfrastructureError(f"{place} is no context of a kubeconfig")
    files = f" of {match['files']}" if match["files"] else ""
    return f"context {match['name']}#{_sign(server)}{files}/{namespace}"


def is_place(scope: str) -> bool:
    """Whether a scope is one of a context, and not of some other kind of place."""
    return _CONTEXT.fullmatch(scope.rpartition("/")[0]) is not None


def access_to(scope: str) -> Access:
    """Returns the access to a scope's cluster, in its namespace. Raises InfrastructureError where this machine has
    none: what is there cannot be looked at from here.
    """
    place, _, namespace = scope.rpartition("/")
    match = _CONTEXT.fullmatch(place)
    if match is None:
        raise InfrastructureError(f"{place} is no context of a kubeconfig")
    try:
        access = by_context(match["name"], _file(match["files"]), namespace)
    except BadInput as error:
        raise InfrastructureError(f"this machine does not know the way to {place}: {error}") from error
    if match["sign"] and match["sign"] != _sign(access.server):
        raise InfrastructureError(
            f"context {match['name']} leads to {access.server} now, and to another API server when this was made there"
        )
    return access


def _file(files: str | None) -> str | None:
    if files is None or os.pathsep not in files:
        return files
    return next((one for one in files.split(os.pathsep) if Path(one).is_file()), files)


def _sign(server: str) -> str:
    return hashlib.sha256(server.encode()).hexdigest()[:8]


def cluster_at(scope: str, timing: Timing | None = None) -> Kubernetes:
    """Returns the API of a scope's cluster. Raises as `access_to`."""
    return Kubernetes(access_to(scope), timing=timing)
