"""The token of the machine itself, for programs that send none because they take the proxy for a stand-in."""

from __future__ import annotations

import threading
from typing import Any

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.refusal import unavailable
from runtime.gcs_proxy.wire import Headers

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


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

    def added(self, headers: Headers) -> Headers:
        """Returns fields with a token, where they have none. Raises Refused (503) where none can be got."""
        if headers.has("authorization"):
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
