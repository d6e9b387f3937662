"""Tells every call to the outside on one logger: what was asked of whom, what came of it, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.contract.errors import InfrastructureError
from tasks.cloud.waits import waiting

LOGGER = "slicebench.calls"
"""Its name. At DEBUG; whoever wants to see the calls adds a handler, which knows the secrets that it has to hide."""

UNANSWERED = "is it up, and reachable from here? Try again later"
"""What to do where a service gives no answer, to stand at the end of a message."""

_LONGEST = 300
"""Letters of a call that are told: programs that are handed over as text go on for pages."""


class Unanswered(InfrastructureError):
    """A service gave no answer for as long as it was asked: nothing is known of what it would have said."""


@dataclass
class Call:
    """A call that is under way. `result` is what it came to, in a word, where that is more than that it returned."""

    result: str = "ok"


@contextmanager
def calling(kind: str, what: str, within_s: float | None = None) -> Iterator[Call]:
    """Around a call to the outside of a kind (git, ssh, gs …); `what` may hold anything but secrets of its own.

    `within_s`: how long it may take at most where that is a wait for an answer, of which people are told; None: it is
    work, or a stream, that may go on for as long as it likes.
    """
    call, begin = Call(), time.monotonic()
    try:
        with waiting(f"{kind}: {what}", within_s):
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
