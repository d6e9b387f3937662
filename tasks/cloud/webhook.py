"""Sends JSON to an address that is itself a secret: with time limits, a few tries, and never a word of the address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from runtime.contract.errors import InfrastructureError

TRY_S = 10.0
PAUSES_S = (1.0, 4.0)
"""Between tries: what does not take a message within three is down, and gets it with the next night's."""


def post(
    url: str, content: Mapping[str, Any], named: str, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Sends an object. Raises InfrastructureError, saying what is `named` so, when it was not taken.

    A message that may have arrived is sent again: who receives knows it by its id.
    """
    import httpx

    checked_address(url, named)
    why = ""
    for pause_s in (*PAUSES_S, None):
        try:
            answer = httpx.post(url, json=dict(content), timeout=TRY_S, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = f"it cannot be reached ({type(error).__name__})"
        else:
            if answer.is_success:
                return
            why = f"it answered {answer.status_code}"
            if answer.status_code < 500 and answer.status_code not in (408, 429):
                break
        if pause_s is not None:
            sleep(pause_s)
    raise InfrastructureError(f"{named} did not take the message: {why}")


def checked_address(url: str, named: str) -> None:
    """Raises InfrastructureError where it is none that a message could be sent to."""
    if not _is_address(url):
        raise InfrastructureError(f"{named} is no address by http or https")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
