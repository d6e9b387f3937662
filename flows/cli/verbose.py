"""--verbose: every call to the outside that this process makes, on stderr as it ends, without what is secret."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

from cyclopts import Parameter

Verbose = Annotated[
    bool,
    Parameter(name="--verbose", negative="", show_default=False, help="Show every call to the outside"),
]


class _Teller(logging.Handler):
    """Prints calls on stderr; values of variables that sound like secrets are taken out."""

    def __init__(self) -> None:
        from runtime.contract.redaction import Redaction
        from tasks.config.envfile import looks_secret

        super().__init__()
        self._redact = Redaction(value for name, value in os.environ.items() if looks_secret(name))

    def emit(self, record: logging.LogRecord) -> None:
        print(self._redact(f"call {record.getMessage()}"), file=sys.stderr, flush=True)


def show_calls(wanted: bool) -> None:
    """Shows calls from now on, or no longer."""
    from tasks.cloud.calls import LOGGER

    for handler in [one for one in LOGGER.handlers if isinstance(one, _Teller)]:
        LOGGER.removeHandler(handler)
    LOGGER.setLevel(logging.DEBUG if wanted else logging.NOTSET)
    LOGGER.propagate = not wanted
    if wanted:
        LOGGER.addHandler(_Teller())
