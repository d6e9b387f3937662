"""Opens the API of a cluster of GKE by its name: where it is, its authority and its id, as GKE's own API tells them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.container_model import Cluster
from tasks.cloud.container_transport import ENDPOINT_VARIABLE
from tasks.cloud.google_calls import is_here
from tasks.cloud.kubernetes_access import Access, GoogleTokens, by_endpoint
from tasks.cloud.timing import Timing

_TIMING = Timing(total_s=30.0)


@dataclass(frozen=True)
class GkeName:
    """A cluster of GKE. `location` is its zone or region."""

    project: str
    location: str
    cluster: str


class NoAddress(InfrastructureError):
    """The cluster is there, and cannot be spoken to: it is being made or deleted, or never came to be whole."""


def look_at(place: GkeName) -> Cluster:
    """Returns a cluster as it stands. Raises ContainerError (NotFound: GKE says that there is none of the name)."""
    return Container(place.project, timing=_TIMING).cluster(place.location, place.cluster)


def access_of(found: Cluster, namespace: str = "default") -> Access:
    """Returns how a cluster is reached that was looked at just now. Raises NoAddress."""
    if found.state == "STOPPING":  # its API may go at any moment, and is not worth waiting for
        raise NoAddress(f"cluster {found.name} is being deleted")
    server = found.dns or found.endpoint
    if not server:
        raise NoAddress(f"cluster {found.name} has no address: it is {found.state}: wait until it is RUNNING")
    if os.environ.get(ENDPOINT_VARIABLE):  # who is asked without TLS is not to say where our login is sent to
        host = urlsplit(f"//{server}").hostname
        if not is_here(host or ""):
            raise BadInput(
                f"cluster {found.name} of the stand-in at {ENDPOINT_VARIABLE} has no Kubernetes of its own: it says "
                f"{server}, which is not on this machine",
                fix="start the stand-in with --kubernetes, or unset the variable to speak to Google",
            )
    # The certificate of the name is signed by an authority that everybody knows, that of the address by its own.
    authority = None if found.dns else found.ca.decode()
    name = f"cluster {found.name} of {found.location}"
    try:
        return by_endpoint(name, server, authority, google_tokens(), namespace, identity=found.uid)
    except BadInput as error:
        raise NoAddress(str(error)) from error


@functools.cache
def google_tokens() -> GoogleTokens:
    """Returns the tokens of this process's Google login: one for all clusters, so that it is renewed once."""
    return GoogleTokens()
