"""The seam to GKE's API: the client, how often and how long each call is tried, and what its errors become."""

from __future__ import annotations

import functools
import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tasks.cloud import google_calls
from tasks.cloud.container_errors import Nobody, Unavailable, error_for
from tasks.cloud.google_calls import StandIn, Wording
from tasks.cloud.timing import Timing

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.cloud import container_v1

ENDPOINT_VARIABLE = "SLICEBENCH_CONTAINER_ENDPOINT"
"""Environment variable with HOST:PORT of a stand-in on this machine: spoken to without TLS or credentials."""

_WORDING = Wording("gke", error_for, Unavailable, Nobody)


def client() -> container_v1.ClusterManagerClient:
    """Returns this process's client. Raises PermissionDenied where there are no credentials."""
    # A channel does not survive a fork, so a child makes its own.
    return _client(os.environ.get(ENDPOINT_VARIABLE, ""), google_calls.stand_in_token(), os.getpid())


@functools.cache
def _client(endpoint: str, token: str, pid: int) -> container_v1.ClusterManagerClient:
    from google.cloud import container_v1
    from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerGrpcTransport

    stand_in = StandIn(ENDPOINT_VARIABLE, endpoint, token)
    return google_calls.opened(
        container_v1.ClusterManagerClient, ClusterManagerGrpcTransport, stand_in, _WORDING
    )


def retry(timing: Timing) -> Retry:
    """Returns how a call that changes nothing is repeated, in the place of the client's own way."""
    return google_calls.retry(timing, _WORDING)


def told(doing: str, within_s: float | None = None) -> AbstractContextManager[None]:
    """Turns the client's errors into ours; `doing` completes "cannot …". It takes so long at most, with all tries."""
    return google_calls.told(doing, _WORDING, within_s)
