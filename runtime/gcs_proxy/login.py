"""The token of the machine itself, for programs that send none because they take the proxy for a stand-in."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from runtime.contract.errors import BadInput
from runtime.contract.loopback import is_loopback
from runtime.gcs_proxy.refusal import Refused, unavailable
from runtime.gcs_proxy.wire import Headers

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_SIGNATURES = frozenset(("x-goog-signature", "x-amz-signature", "signature"))


class Login:
    """Application default credentials for Cloud Storage."""

    def __init__(self) -> None:
        """Raises BadInput where this machine has none."""
        import google.auth
        from google.auth.transport.requests import Request

        self._lock, self._request = threading.Lock(), Request()
        try:
            self._credentials: Any = google.auth.default(scopes=[_SCOPE])[0]
        except google.auth.exceptions.DefaultCredentialsError as error:
            raise BadInput(
                f"--login finds no credentials here: {error}", fix="gcloud auth application-default login"
            ) from error

    def added(self, target: str, headers: Headers) -> Headers:
        """Returns fields with a token, where nothing says who asks. Raises Refused (503) where none can be got."""
        if headers.has("authorization") or is_signed(target):
            return headers
        import google.auth

        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(self._request)
                except google.auth.exceptions.GoogleAuthError as error:
                    raise unavailable(f"no token for the store can be got: {error}") from error
            token = self._credentials.token
        return Headers([*headers, ("Authorization", f"Bearer {token}")])


def refuse_pages(headers: Headers, *, here: bool = True) -> None:
    """Raises Refused for what a web page asks by a browser on this machine: it is not to have the machine's rights.

    `here`: it was asked at an address of this machine, not for a host that is stood in for.
    """
    # A page whose name was made to lead here asks for itself, and no field but Host tells it.
    elsewhere = here and not _is_here(headers.get("host"))
    if headers.has("origin") or headers.has("sec-fetch-site") or elsewhere:
        raise Refused(
            403, "forbidden", "with --login, this proxy answers programs of its machine, and no web pages"
        )


def _is_here(authority: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{authority}").hostname or "")
    except ValueError:
        return False


def is_signed(target: str) -> bool:
    """Tells whether a URL says who asks: the store takes one word on that alone."""
    query = parse_qsl(target.partition("?")[2], keep_blank_values=True)
    return any(name.lower() in _SIGNATURES for name, _ in query)
