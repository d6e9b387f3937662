"""Tells every call to the outside on one logger: what was asked of whom, what came of it, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LOGGER = "slicebench.calls"
"""Its name. At DEBUG; whoever wants to see the calls adds a handler, which knows the secrets that it has to hide."""

_LONGEST = 300
"""Letters of a call that are told: programs that are handed over as text go on for pages."""


@dataclass
class Call:
    """A call that is under way. `result` is what it came to, in a word, where that is more than that it returned."""

    result: str = "ok"


@contextmanager
def calling(kind: str, what: str) -> Iterator[Call]:
    """Around a call to the outside of a kind (git, ssh, gs …); `what` may hold anything but secrets of its own."""
    call, begin = Call(), time.monotonic()
    try:
        yield call
    except BaseException as error:
        call.result = type(error).__name__
        raise
    finally:
        if "logging" in sys.modules:  # as it is wherever somebody listens; to import it takes a while
            _tell(kind, what, call.result, time.monotonic() - begin)


def _tell(kind: str, what: str, result: str, seconds: float) -> None:
    import logging

    from runtime.contract.redaction import Redaction, without_logins

    logger = logging.getLogger(LOGGER)
    if logger.isEnabledFor(logging.DEBUG):
        told = " ".join(Redaction()(without_logins(what)).split())
        if len(told) > _LONGEST:
            told = f"{told[:_LONGEST]} …"
        logger.debug("%s: %s: %s, %.2f s", kind, told, result, seconds)
