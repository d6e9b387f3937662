"""Where slicebench keeps its state on this machine."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "SLICEBENCH_HOME"
LEDGER_VARIABLE = "SLICEBENCH_LEDGER"
HISTORY_VARIABLE = "SLICEBENCH_HISTORY"


def home() -> Path:
    """Returns the state root: $SLICEBENCH_HOME, else ~/.slicebench. Makes nothing."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".slicebench")


def runs_folder() -> Path:
    """Returns the default --output."""
    return home() / "runs"


def ledger_uri() -> str:
    """Returns where leases are written down: $SLICEBENCH_LEDGER (a path or gs://bucket/folder), else a folder here."""
    return os.environ.get(LEDGER_VARIABLE) or str(ledger_folder())


def ledger_folder() -> Path:
    """Returns where leases are written down by default."""
    return home() / "ledger"


def history_uri() -> str:
    """Returns where the history is looked for: $SLICEBENCH_HISTORY (a path or gs://…), else a folder here."""
    return os.environ.get(HISTORY_VARIABLE) or str(home() / "history")


def series_folder() -> Path:
    """Returns where pages of single series are put."""
    return home() / "series"


def comparisons_folder() -> Path:
    """Returns where pages of two runs beside each other are put."""
    return home() / "comparisons"


def scratch_folder() -> Path:
    """Returns where runs keep what is neither results nor state: worker scratch of the local target, for one."""
    return home() / "scratch"


def hosts_folder() -> Path:
    """Returns where it is written down how to get to hosts that leases name."""
    return home() / "hosts"


def kits_folder() -> Path:
    """Returns where it is kept what hosts make their venvs of."""
    return home() / "kits"


def images_folder() -> Path:
    """Returns where image builds keep what they are made of while they last."""
    return home() / "images"


def sources_folder() -> Path:
    """Returns where source trees that were fetched are kept."""
    return home() / "sources"


def manifests_folder() -> Path:
    """Returns where it is written down what manifests hashed to when they were first seen."""
    return home() / "manifests"
