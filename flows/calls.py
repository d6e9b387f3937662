"""Who is told of calls to the outside that this process makes, without what is secret: of each as it ends, and of what
is waited for for long.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from runtime.contract.redaction import Redaction, without_logins
from tasks.cloud.calls import LOGGER
from tasks.cloud.waits import telling
from tasks.config.envfile import looks_secret
from tasks.stages.files import RUN_LOG


def tell_calls(say: Callable[[str], None] | None, *, again_s: float = 0.0) -> None:
    """Tells `say` of every call from now on, and nobody else; None: nobody.

    One that comes to the same as when it was told, less than `again_s` seconds ago, is left out.
    """
    logger = logging.getLogger(LOGGER)
    for handler in [one for one in logger.handlers if isinstance(one, _Teller)]:
        logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET if say is None else logging.DEBUG)
    logger.propagate = say is None
    if say is not None:
        logger.addHandler(_Teller(say, again_s))


def telling_waits(say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Within, `say` is told what is waited for for long."""
    return telling(lambda text: say(without_secrets(text)))


def without_secrets(text: str) -> str:
    """Returns what is told of a call: one line, without values of variables that sound like secrets."""
    redact = Redaction(value for name, value in os.environ.items() if looks_secret(name))
    return " ".join(redact(without_logins(text)).split())


class _Teller(logging.Handler):
    """Values of variables that sound like secrets are taken out."""

    def __init__(self, say: Callable[[str], None], again_s: float) -> None:
        super().__init__()
        self._say = say
        self._again_s = again_s
        self._told: dict[object, float] = {}
        self._redact = Redaction(value for name, value in os.environ.items() if looks_secret(name))

    def emit(self, record: logging.LogRecord) -> None:
        # The thread that writes a run's log would have the more to write the more it wrote.
        if record.threadName == RUN_LOG:
            return
        same = record.args[:-1] if isinstance(record.args, tuple) else record.args
        if record.created - self._told.get(same, -math.inf) >= self._again_s:
            self._told[same] = record.created
            self._say(self._redact(f"call {record.getMessage()}"))
