"""Imports what the last stages need while the first ones wait for others, so that nobody waits for the
import.
"""

from __future__ import annotations

import importlib
import threading

SLOW = (
    "pandas",
    "pyarrow.parquet",
    "matplotlib.figure",
    "jinja2",
    "tasks.stages.collect",
    "tasks.stages.compare",
    "tasks.stages.report",
)
"""Roughly three seconds of CPU together."""


def preload() -> threading.Thread:
    """Starts importing and returns the thread. A module that cannot be imported is told by the stage that
    needs it.
    """
    thread = threading.Thread(target=_import_all, name="preload", daemon=True)
    thread.start()
    return thread


def _import_all() -> None:
    for name in SLOW:
        try:
            importlib.import_module(name)
        except ImportError:
            return
