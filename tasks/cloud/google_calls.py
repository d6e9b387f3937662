"""How a call to one of Google's APIs is made: its client, how long it is tried, and what its errors become."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.timing import Timing

if TYPE_CHECKING:
    from google.api_core.retry import Retry

Client = TypeVar("Client")

_NO_ANSWER = (4, 14)  # DEADLINE_EXCEEDED, UNAVAILABLE
_TOKEN_VARIABLE = "SLICEBENCH_STAND_IN_TOKEN"
"""Environment variable with the token that says to stand-ins who asks; it is sent to nobody else."""


class StandIn(NamedTuple):
    """Where an API's stand-in is, and which environment variable says so; empty: there is none. `token`: who asks."""

    variable: str
    endpoint: str
    token: str = ""


class NotAllowed(InfrastructureError):
    """Whoever asks may not: asking again changes nothing, until somebody grants something."""


class NotEnabled(InfrastructureError):
    """The API is not enabled in the project: nothing can be there."""


@dataclass(frozen=True)
class Wording:
    """A client's own errors. `error_for` takes code (google.rpc.Code), message and what was tried.

    `unavailable` is what may be tried again where that changes nothing; `denied` is for credentials.
    """

    kind: str
    error_for: Callable[[int, str, str], InfrastructureError]
    unavailable: type[InfrastructureError]
    denied: type[InfrastructureError]


def opened(
    client: Callable[..., Client], transport: Callable[..., Any], stand_in: StandIn, wording: Wording
) -> Client:
    """Returns a client of an API: of its stand-in where there is one, else with this machine's credentials.

    Raises the API's own error where there are none, BadInput for a stand-in that is elsewhere.
    """
    from google.auth.exceptions import GoogleAuthError

    if stand_in.endpoint:
        import grpc

        refuse_far_endpoint(stand_in.variable, stand_in.endpoint)
        channel = grpc.insecure_channel(stand_in.endpoint)
        if stand_in.token:
            channel = grpc.intercept_channel(channel, _bearer(stand_in.token))
        return client(transport=transport(channel=channel))
    from tasks.cloud.google_login import google_login

    try:
        return client(credentials=google_login())
    except GoogleAuthError as error:
        raise wording.denied(
            f"there are no Google credentials here ({error}): gcloud auth application-default login"
        ) from error


def retry(timing: Timing, wording: Wording) -> Retry:
    """Returns how a call that may be repeated is repeated: by this alone, whatever the client itself would do."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.api_core.retry import Retry

    def passing(error: BaseException) -> bool:
        return isinstance(error, GoogleAPICallError) and isinstance(
            _as_error(error, "", wording), wording.unavailable
        )

    return Retry(
        predicate=passing,
        initial=timing.first_pause_s,
        maximum=timing.longest_pause_s,
        multiplier=2.0,
        timeout=timing.total_s,
    )


@contextmanager
def told(doing: str, wording: Wording, within_s: float | None) -> Iterator[None]:
    """Turns the client's errors into ours; `doing` completes "cannot …". It takes so long at most, with all tries."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError

    try:
        with calling(wording.kind, doing, within_s):
            yield
    except GoogleAPICallError as error:
        raise _as_error(error, doing, wording) from error
    except RetryError as error:
        cause = error.cause
        if isinstance(cause, GoogleAPICallError):
            raise _as_error(cause, f"{doing} (tried for a while)", wording) from error
        raise wording.unavailable(f"cannot {doing}: {error}") from error
    except GoogleAuthError as error:
        raise wording.denied(
            f"cannot {doing}: {error}: log in again (gcloud auth application-default login)"
        ) from error


def is_left_out(variable: str) -> bool:
    """Whether this process is among stand-ins of which none is for the API whose endpoint the variable holds.

    Then that API is asked for nothing that is not known to be there.
    """
    others = [name for name in os.environ if name.startswith("SLICEBENCH_") and name.endswith("_ENDPOINT")]
    return bool(others) and variable not in others


def is_here(host: str) -> bool:
    """Whether a host is this machine by its own name for itself."""
    return host in ("127.0.0.1", "localhost", "::1")


def stand_in_token() -> str:
    """Returns the token that says to stand-ins who asks; empty: nobody in particular."""
    return os.environ.get(_TOKEN_VARIABLE, "")


def _bearer(token: str) -> Any:
    """Returns what sends a token with each call over a channel that is not encrypted: credentials of gRPC would not."""
    import grpc

    class Bearer(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
            told = [*(details.metadata or ()), ("authorization", f"Bearer {token}")]
            return go_on(details._replace(metadata=told), request)

    return Bearer()


def refuse_far_endpoint(variable: str, endpoint: str) -> None:
    """Raises BadInput for a stand-in that is not on this machine: it is spoken to in the clear."""
    if not is_here(endpoint.rsplit(":", 1)[0].strip("[]")):
        raise BadInput(
            f"{variable}={endpoint} is not on this machine",
            fix="it is for stand-ins on loopback only, as it is spoken to in the clear: unset it",
        )


def _as_error(error: Any, doing: str, wording: Wording) -> InfrastructureError:
    status = error.grpc_status_code
    code = int(status.value[0]) if status is not None else 2
    text = str(error.message)
    if (
        "Getting metadata from plugin failed" in text
    ):  # credentials that cannot be refreshed, told as UNAVAILABLE
        code = 16
    made = wording.error_for(code, text, doing)
    if code in _NO_ANSWER and isinstance(made, wording.unavailable):
        return type(made)(f"{made}; {UNANSWERED}")
    return made
