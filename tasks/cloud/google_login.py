"""The user's Google login, application-default credentials: found and renewed within a time, which is told if long."""

from __future__ import annotations

from typing import Any

from tasks.cloud.calls import calling

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FIND_S = 30.0
"""Where no credentials lie, a metadata server is asked for some: three times, and first looked for by its name."""
_RENEW_S = 30.0


def google_login() -> Any:
    """Returns the credentials, not yet tried out. Raises GoogleAuthError where there are none."""
    import google.auth

    with calling("google", "find a login", _FIND_S):
        return google.auth.default(scopes=[_SCOPE])[0]


def renew(credentials: Any) -> None:
    """Gets a new token. Raises GoogleAuthError."""
    import functools

    from google.auth.transport.requests import Request

    with calling("google", "renew the login", _RENEW_S):
        credentials.refresh(functools.partial(Request(), timeout=_RENEW_S))
