"""Google's APIs over REST, as far as clusters and environments need them: one way to ask, to wait, and to fail.

Networks, accounts, policies, buckets, images and TensorBoards are made by some thirty methods of seven APIs. Their
client libraries are as many packages, of which two (Compute Engine, Vertex AI) take longer to import than all else that
a command does; what is asked for here are documents of JSON, which are written, compared and read back as they are.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.container_errors import (
    Busy,
    ContainerError,
    Nobody,
    Unanswered,
    Unavailable,
    error_for,
    error_of_operation,
)
from tasks.cloud.google_calls import refuse_far_endpoint, stand_in_token
from tasks.cloud.google_roles import role_for
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

if TYPE_CHECKING:
    import httpx

ENDPOINT_VARIABLE = "SLICEBENCH_GOOGLE_ENDPOINT"
"""Environment variable with HOST:PORT of a stand-in on this machine: spoken to without TLS or credentials."""

_CODES = {
    "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5, "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10, "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15, "UNAUTHENTICATED": 16,
}  # fmt: skip
_OF_HTTP = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 412: 10, 429: 8, 499: 1, 501: 12}
"""HTTP status → google.rpc.Code; others from 500 on may pass. 412: somebody else changed it since it was read."""

Document = Mapping[str, Any]
Tokens = Callable[[bool], str]
"""Returns a token; another one, where the first was refused."""


class Rest:
    """One API, by its host. Methods raise ContainerError; NotFound only when the service says that there is none."""

    def __init__(self, host: str, *, timing: Timing | None = None, stand_in: str = ENDPOINT_VARIABLE) -> None:
        """`stand_in` is the environment variable that says where this API's stand-in is, if there is one."""
        self.host = host
        self.timing = timing or Timing()
        self._api = host.partition(".")[0].rpartition("-")[2]
        self._stand_in = stand_in

    def get(self, doing: str, path: str) -> Document:
        """Asks, as often as it takes. `doing` completes "cannot …"."""
        return self.ask("GET", doing, path)

    def ask(self, method: str, doing: str, path: str, body: Document | None = None) -> Document:
        """Sends what changes nothing, as often as it takes."""
        for pause in pauses(self.timing, f"{self._api}: {doing}"):
            try:
                return self.send(method, doing, path, body)
            except Unavailable as error:
                if pause is None:
                    raise
                tried(str(error))
                time.sleep(pause)
        raise AssertionError("the last pause is None")

    def listed(self, doing: str, path: str, field: str) -> list[Document]:
        """Returns all of a list, however many pages it has."""
        return [one for page in self.pages(doing, path) for one in page.get(field, ())]

    def pages(self, doing: str, path: str) -> Iterator[Document]:
        """Yields the pages of a list as they come."""
        token = ""
        while True:
            more = f"{'&' if '?' in path else '?'}pageToken={quote(token, safe='')}" if token else ""
            page = self.get(doing, f"{path}{more}")
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return

    def send(self, method: str, doing: str, path: str, body: Document | None = None) -> Document:
        """Sends a request once."""
        import httpx

        endpoint = os.environ.get(self._stand_in) or None
        server, client, tokens = _client(self._stand_in, endpoint, stand_in_token(), os.getpid())
        url = f"{server or 'https:/'}/{self.host}/{path}"
        try:
            with calling(self._api, doing, 2 * self.timing.try_s) as call:
                response = self._once(client, tokens, method, url, body)
                call.result = str(response.status_code)
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            kind = Unavailable if isinstance(error, httpx.ConnectError) else Unanswered
            raise kind(f"cannot {doing}: {words} ({self.host}); {UNANSWERED}") from error
        if response.is_error:
            raise self._failure(response, doing, role_for(self._api, method, path))
        try:
            told: Document = response.json() if response.content else {}
            if not isinstance(told, dict):
                raise ValueError("it is no object")
        except ValueError as error:  # a proxy's page, or half of the reply
            words = " ".join(response.text.split())[:120] or "what cannot be read"
            raise Unanswered(f"cannot {doing}: {self.host} answered {words}; {UNANSWERED}") from error
        return told

    def follow(self, doing: str, operation: Document, folder: str) -> None:
        """Waits for the end of an operation. Raises the error that it ended with. `folder` is where it is asked for."""
        deadline = time.monotonic() + self.timing.total_s
        name = str(operation.get("name", ""))
        role = role_for(self._api, path=str(operation.get("targetLink", "")))
        while not (operation.get("done") or operation.get("status") == "DONE"):
            if not name:
                return
            if time.monotonic() >= deadline:
                raise Unavailable(f"cannot {doing}: it takes more than {self.timing.total_s:.0f} s")
            time.sleep(self.timing.first_pause_s)
            operation = self.get(f"wait to {doing}", f"{folder}/{name}")
        error = operation.get("error") or {}
        if errors := error.get("errors"):
            code = _OF_HTTP.get(int(operation.get("httpErrorStatusCode", 0)), 3)
            raise error_of_operation(code, str(errors[0].get("message", errors[0])), doing, self._api, role)
        if error.get("code"):
            raise error_of_operation(int(error["code"]), str(error.get("message")), doing, self._api, role)

    def _once(
        self,
        client: httpx.Client,
        tokens: Tokens | None,
        method: str,
        url: str,
        body: Document | None,
    ) -> httpx.Response:
        """Sends a request; once more with another token when the first is not taken."""
        for refused in (False, True):
            headers = {"Authorization": f"Bearer {_token(tokens, refused)}"} if tokens is not None else {}
            response = client.request(method, url, json=body, headers=headers, timeout=self.timing.try_s)
            if response.status_code != 401 or tokens is None:
                break
        return response

    def _failure(self, response: httpx.Response, doing: str, role: str) -> ContainerError:
        told: Any = {}
        try:
            told = response.json()["error"]
            message = str(told["message"])
        except (ValueError, KeyError, TypeError):
            message = response.text[:300] or response.reason_phrase
        status = str(told.get("status", "")) if isinstance(told, dict) else ""
        usual = 14 if response.status_code >= 500 else 3
        code = _CODES.get(status) or _OF_HTTP.get(response.status_code, usual)
        if response.status_code == 412:  # a generation, an etag or a fingerprint that is no longer the one
            return Busy(f"cannot {doing}: {message}")
        return error_for(code, message, doing, self._api, role)


@functools.cache
def _client(
    variable: str, endpoint: str | None, token: str, pid: int
) -> tuple[str, httpx.Client, Tokens | None]:
    import httpx

    if endpoint:
        refuse_far_endpoint(variable, endpoint)
        tokens = (lambda refused: token) if token else None
        # No proxy between us and ourselves.
        return f"http://{endpoint}", httpx.Client(trust_env=False), tokens
    from tasks.cloud.kubernetes_access import GoogleTokens

    return "", httpx.Client(headers={"User-Agent": "slicebench"}), GoogleTokens()


def _token(tokens: Tokens, refused: bool) -> str:
    from tasks.cloud.kubernetes_errors import PermissionDenied as NotLoggedIn

    try:
        return tokens(refused)
    except NotLoggedIn as error:
        raise Nobody(str(error)) from error
