"""What a disk refuses, as an error that says what was under way and, where it is full, how to go on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.contract.errors import InfrastructureError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def on_disk(doing: str, otherwise: str) -> Iterator[None]:
    """Raises InfrastructureError for an OSError. `doing` completes "cannot …"; `otherwise`: where else it could be."""
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        where = f" ({error.filename})" if error.filename else ""
        fix = f": free some space, or {otherwise}" if error.errno in _FULL else ""
        raise InfrastructureError(f"cannot {doing}: {what}{where}{fix}") from error
