"""What a bench ran on: numbers without it say nothing."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("jax", "orbax-checkpoint", "tensorstore", "prefect")


def machine() -> str:
    """Returns processors, memory, kernel and versions in one line."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{cores} cores of {_processor()}, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def commit() -> str:
    """Returns what of slicebench was measured: the commit, and whether files differ from it."""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def now() -> str:
    """Returns date and time, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}"


def load() -> str:
    """Returns the load average of the last minute: above the number of cores, processes waited for each other."""
    return f"{os.getloadavg()[0]:.1f}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "an unknown processor"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else "an unknown processor"
