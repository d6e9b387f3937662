"""A kubeconfig for one cluster of GKE, for tools of the user's own: printed or written where told, nowhere else."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

from runtime.contract.errors import BadInput
from tasks.cloud.container_model import Cluster
from tasks.cloud.named_file import refuse_there, write_named

_PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "command": "gke-gcloud-auth-plugin",
    "installHint": "gcloud components install gke-gcloud-auth-plugin",
    "interactiveMode": "IfAvailable",
    "provideClusterInfo": True,
}


def kubeconfig(cluster: Cluster, token: str | None = None, *, dns: bool = False) -> str:
    """Returns the kubeconfig of a cluster as YAML. Credentials come from gcloud's plugin, or are a `token`.

    `dns`: the control plane is reached by its name, which needs no way into a private network.
    Raises BadInput for a cluster that has no address yet.
    """
    server = cluster.dns if dns or not cluster.endpoint else cluster.endpoint
    if not server:
        what = "no DNS endpoint" if dns and cluster.endpoint else "no address"
        raise BadInput(
            f"cluster {cluster.name} has {what}: it is {cluster.state}", fix="wait until it is RUNNING"
        )
    name = f"gke_{cluster.project}_{cluster.location}_{cluster.name}"  # as gcloud calls it
    place: dict[str, Any] = {"server": f"https://{server}"}
    if server == cluster.endpoint:  # the name's certificate is signed by an authority that everybody knows
        place["certificate-authority-data"] = base64.b64encode(cluster.ca).decode()
    user: dict[str, Any] = {"exec": _PLUGIN} if token is None else {"token": token}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": place}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def refuse_to_write(file: Path, *, force: bool) -> None:
    """Raises BadInput for the file that the user's own tools read, whatever is said, and as `refuse_there` does."""
    whose = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    whose.append(Path("~/.kube/config").expanduser())
    if any(file.expanduser().resolve() == one.resolve() for one in whose):
        raise BadInput(
            f"{file} is your own kubeconfig, which slicebench never writes",
            fix="name another file, and use it with KUBECONFIG=FILE",
        )
    refuse_there(file, force=force)


def write_kubeconfig(content: str, file: Path, *, force: bool = False) -> None:
    """Writes a kubeconfig for nobody else to read. Raises as `refuse_to_write` does; InfrastructureError."""
    refuse_to_write(file, force=force)
    write_named(file, content.encode(), force=force, mode=0o600)


def access_token() -> str:
    """Returns a token of the user's Google credentials: good for an hour at most. Raises BadInput without any."""
    from google.auth.exceptions import GoogleAuthError

    from tasks.cloud.google_login import google_login, renew

    try:
        credentials = google_login()
        renew(credentials)
    except GoogleAuthError as error:
        raise BadInput(
            f"there are no Google credentials here: {error}", fix="gcloud auth application-default login"
        ) from None
    return str(credentials.token)
