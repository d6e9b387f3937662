"""The user's Google login, application-default credentials: found and renewed within a time, which is told if long."""

from __future__ import annotations

import os
import time
from typing import Any

from runtime.contract.errors import InfrastructureError
from tasks.cloud.calls import calling

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FIND_S = 30.0
"""Where no credentials lie, a metadata server is asked for some: three times, and first looked for by its name."""
_RENEW_S = 30.0
_NONE_FOR_S = 10.0
"""For so long it is not looked again where there was none: each API and each project would ask once more."""
_WHERE = ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "HOME")
_none: dict[tuple[str | None, ...], tuple[float, Exception]] = {}
"""When none was found, by what says where to look: elsewhere there may be one."""


class NoLogin(InfrastructureError):
    """Nobody is logged in to Google here, or not any more: nothing of it can be looked at from here."""


def google_login() -> Any:
    """Returns the credentials, not yet tried out. Raises GoogleAuthError where there are none."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    where = tuple(os.environ.get(name) for name in _WHERE)
    if where in _none and time.monotonic() - _none[where][0] < _NONE_FOR_S:
        raise _none[where][1]
    try:
        with calling("google", "find a login", _FIND_S):
            return google.auth.default(scopes=[_SCOPE])[0]
    except GoogleAuthError as error:
        _none[where] = (time.monotonic(), error)
        raise


def renew(credentials: Any) -> None:
    """Gets a new token. Raises GoogleAuthError."""
    import functools

    from google.auth.transport.requests import Request

    with calling("google", "renew the login", _RENEW_S):
        credentials.refresh(functools.partial(Request(), timeout=_RENEW_S))
