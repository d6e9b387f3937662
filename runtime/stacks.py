"""Stack dumps on demand: armed before anything slow is imported, so that a stuck worker can say where."""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

STACKS_FILE_VARIABLE = "SLICEBENCH_STACKS_FILE"
"""Names the file that gets the stacks; set by the supervisor, or by hand together with `kill -USR2`."""


def arm() -> None:
    """Makes SIGUSR2 append the stacks of all threads to $SLICEBENCH_STACKS_FILE; without it does nothing.

    The dump is made by faulthandler in C: it works while every Python thread waits in C++ for a barrier.
    Raises OSError when the file cannot be opened.
    """
    path = os.environ.get(STACKS_FILE_VARIABLE)
    if not path:
        return
    # Never closed: the signal may come at any time until the process is gone.
    file = Path(path).open("a")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR2, file=file, all_threads=True, chain=False)
