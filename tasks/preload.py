"""Imports what the last stages need while others are at work, so that nobody waits for the import."""

from __future__ import annotations

import importlib
import threading

SLOW = (
    "tasks.stages.collect",
    "tasks.stages.compare",
    "tasks.stages.report",
    "pyarrow.parquet",
    "pyarrow.compute",
    "scipy.special",
    "rich.console",
    "rich.table",
    "jinja2",
    "tasks.history.reading",
    "tasks.history.report.page",
    "tasks.history.table",
)
"""What collecting, comparing and reporting import. JAX and Orbax are not among it: those are the workers'."""


def preload() -> None:
    """Starts importing, in a thread. A module that cannot be imported is told by the stage that needs it.

    To be called once there is nothing to do but to wait: two imports at once hold each other up. Workers that are up
    are waited for, and import for longer than this does: nothing is measured yet. Before they are up, this
    would take the processor from what starts them.
    """
    threading.Thread(target=_import_all, name="preload", daemon=True).start()


def _import_all() -> None:
    try:
        for name in SLOW:
            importlib.import_module(name)
        from tasks.history.report.page import template

        template()
    except ImportError:
        return
