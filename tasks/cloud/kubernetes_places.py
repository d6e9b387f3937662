"""Places of JobSets as plans and leases write them down, without any secret, and the way back from them to a cluster.

A place is `context NAME`, or `context NAME of FILE` where the kubeconfig is another than ~/.kube/config, or, on GKE,
`cluster NAME of PROJECT in LOCATION`; a scope is a place and a namespace: `context kind-bench/default`. What was made
there is written down with a sign of what tells this cluster from another of that name: `context kind-bench#0d5e8f21`.

For a context that is its API server's address, and whoever reads the ledger elsewhere needs a context of that name. One
that leads to another server by now says nothing of the first, which may well be up: that is not the same as gone.
For a cluster of GKE it is its id, and anybody with a login can ask GKE about it. The name is given away again only once
the cluster and all of its machines are deleted, so where GKE says that there is none of the name (which is not what it
says to somebody who may not look), or that it has another id, what was in it went with it.
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

# Compiled when they are used: a command asks one of them at most.
_CONTEXT = r"context (?P<name>.+?)(?:#(?P<sign>[0-9a-f]{8}))?(?: of (?P<files>/.+))?"
_CLUSTER = (
    r"cluster (?P<name>[a-z0-9-]+)(?:#(?P<sign>[0-9a-f]{8}))? of (?P<project>[^ /]+) in (?P<location>[^ /]+)"
)


class ClusterGone(InfrastructureError):
    """The cluster of GKE is deleted, as GKE says, and with it all that was in it."""


def place_of(context: str, kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the place of a context; the files that it is read from are part of it, unless they are the usual one."""
    files = str(Path(kubeconfig).expanduser().absolute()) if kubeconfig else environ.get("KUBECONFIG", "")
    return f"context {context} of {files}" if files.startswith("/") else f"context {context}"


def place_of_cluster(project: str, location: str, name: str) -> str:
    """Returns the place of a cluster of GKE."""
    return f"cluster {name} of {project} in {location}"


def signed(scope: str, access: Access) -> str:
    """Returns the scope with a sign of the cluster that it leads to now, by the access to it."""
    place, _, namespace = scope.rpartition("/")
    match = _match(place)
    rest = place[match.end("name") :]
    return f"{place[: match.end('name')]}#{_sign(access.identity or access.server)}{rest}/{namespace}"


def is_place(scope: str) -> bool:
    """Whether a scope is one of a context or a cluster of GKE, and not of some other kind of place."""
    place = scope.rpartition("/")[0]
    return bool(re.fullmatch(_CONTEXT, place) or re.fullmatch(_CLUSTER, place))


def is_by_name(scope: str) -> bool:
    """Whether a scope is in a cluster of GKE that is known by its name."""
    return re.fullmatch(_CLUSTER, scope.rpartition("/")[0]) is not None


def is_known_here(scope: str) -> bool:
    """Whether this machine can look there: GKE can be asked from anywhere, and what may not be asked is an error."""
    if is_by_name(scope):
        return True
    try:
        return is_place(scope) and bool(access_to(scope))
    except InfrastructureError:
        return False


def access_to(scope: str) -> Access:
    """Returns the access to a scope's cluster, in its namespace. Raises InfrastructureError where this machine has
    none: what is there cannot be looked at from here; ClusterGone where there is nothing to look at any more.
    """
    place, _, namespace = scope.rpartition("/")
    match = _match(place)
    if "project" in match.groupdict():
        return _by_name(match, namespace)
    try:
        access = by_context(match["name"], _file(match["files"]), namespace)
    except BadInput as error:
        raise InfrastructureError(f"this machine does not know the way to {place}: {error}") from error
    if match["sign"] and match["sign"] != _sign(access.server):
        raise InfrastructureError(
            f"context {match['name']} leads to {access.server} now, and to another API server when this was made there"
        )
    return access


def flags_to(scope: str) -> list[str]:
    """Returns the flags by which commands about workloads are told a scope."""
    place, _, namespace = scope.rpartition("/")
    found = _match(place).groupdict()
    flags = ["--context", found["name"]]
    if "project" in found:
        flags = ["--cluster", found["name"], "--location", found["location"], "--project", found["project"]]
    elif (file := _file(found["files"])) is not None:
        flags += ["--kubeconfig", file]
    return flags if namespace == "default" else [*flags, "--namespace", namespace]


def on_gke(scope: str) -> Mapping[str, str] | None:
    """Returns name, project, location and namespace of a scope in a cluster of GKE by name; None for a context."""
    place, _, namespace = scope.rpartition("/")
    match = re.fullmatch(_CLUSTER, place)
    if match is None:
        return None
    return {part: match[part] for part in ("name", "project", "location")} | {"namespace": namespace}


def context_of(scope: str) -> str | None:
    """Returns the context of a kubeconfig that a scope is in; None where it is in a cluster by name."""
    match = re.fullmatch(_CONTEXT, scope.rpartition("/")[0])
    return match["name"] if match is not None else None


def _by_name(match: re.Match[str], namespace: str) -> Access:
    from tasks.cloud.container_errors import NotFound
    from tasks.cloud.kubernetes_gke import GkeName, access_of, look_at

    named = GkeName(match["project"], match["location"], match["name"])
    try:
        there = look_at(named)
    except NotFound as error:
        raise ClusterGone(f"cluster {named.cluster} of {named.project} is deleted: {error}") from error
    if match["sign"] and match["sign"] != _sign(there.uid):
        raise ClusterGone(
            f"cluster {named.cluster} of {named.project} is another by now: that one is deleted"
        )
    return access_of(there, namespace)


def _match(place: str) -> re.Match[str]:
    match = re.fullmatch(_CONTEXT, place) or re.fullmatch(_CLUSTER, place)
    if match is None:
        raise InfrastructureError(f"{place} is no context of a kubeconfig, nor a cluster of GKE")
    return match


def _file(files: str | None) -> str | None:
    if files is None or os.pathsep not in files:
        return files
    return next((one for one in files.split(os.pathsep) if Path(one).is_file()), files)


def _sign(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def cluster_at(scope: str, timing: Timing | None = None) -> Kubernetes:
    """Returns the API of a scope's cluster. Raises as `access_to`."""
    return Kubernetes(access_to(scope), timing=timing)
