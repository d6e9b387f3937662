"""The seam to Cloud TPU's API: the client, how often and how long each call is tried, and what its errors become."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import BadInput
from tasks.cloud.calls import calling
from tasks.cloud.timing import Timing
from tasks.cloud.tpu_errors import PermissionDenied, TpuError, Unavailable, error_for

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.cloud import tpu_v2

ENDPOINT_VARIABLE = "SLICEBENCH_TPU_ENDPOINT"
"""Environment variable with HOST:PORT of a stand-in on this machine: spoken to without TLS or credentials."""


def client() -> tpu_v2.TpuClient:
    """Returns this process's client. Raises PermissionDenied where there are no credentials."""
    # A channel does not survive a fork, so a child makes its own.
    return _client(os.environ.get(ENDPOINT_VARIABLE) or None, os.getpid())


@functools.cache
def _client(endpoint: str | None, pid: int) -> tpu_v2.TpuClient:
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import tpu_v2
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

    if endpoint:
        import grpc

        if endpoint.rsplit(":", 1)[0] not in ("127.0.0.1", "localhost", "[::1]"):
            raise BadInput(
                f"{ENDPOINT_VARIABLE}={endpoint} is not on this machine",
                fix="it is for stand-ins on loopback only, as it is spoken to in the clear: unset it",
            )
        return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=grpc.insecure_channel(endpoint)))
    try:
        return tpu_v2.TpuClient()
    except GoogleAuthError as error:
        raise PermissionDenied(
            f"there are no Google credentials here ({error}): gcloud auth application-default login"
        ) from error


def retry(timing: Timing) -> Retry:
    """Returns how a call that may be repeated is repeated: the client itself has no retry at all."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.api_core.retry import Retry

    def passing(error: BaseException) -> bool:
        return isinstance(error, GoogleAPICallError) and isinstance(as_error(error, ""), Unavailable)

    return Retry(
        predicate=passing,
        initial=timing.first_pause_s,
        maximum=timing.longest_pause_s,
        multiplier=2.0,
        timeout=timing.total_s,
    )


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turns the client's errors into ours; `doing` completes "cannot …"."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError

    try:
        with calling("tpu", doing):
            yield
    except GoogleAPICallError as error:
        raise as_error(error, doing) from error
    except RetryError as error:
        cause = error.cause
        if isinstance(cause, GoogleAPICallError):
            raise as_error(cause, f"{doing} (tried for a while)") from error
        raise Unavailable(f"cannot {doing}: {error}") from error
    except GoogleAuthError as error:
        raise PermissionDenied(
            f"cannot {doing}: {error}: log in again (gcloud auth application-default login)"
        ) from error


def as_error(error: Any, doing: str) -> TpuError:
    """Returns our error for one of the client's."""
    status = error.grpc_status_code
    code = int(status.value[0]) if status is not None else 2
    text = str(error.message)
    if (
        "Getting metadata from plugin failed" in text
    ):  # credentials that cannot be refreshed, told as UNAVAILABLE
        code = 16
    return error_for(code, text, doing)
