"""Finds the Pythons that a host has, to make a venv with one; sent as steward.py is."""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH111, PTH112, PTH118, PTH207, PTH208

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import subprocess
from typing import Any

Answer = dict[str, Any]

_ASK_S = 20.0
_MOST_PYTHONS = 24
_PLACES = (
    "/usr/local/bin", "/usr/bin", "/opt/*/bin", "~/.local/bin", "~/.local/share/uv/python/*/bin",
    "~/.pyenv/versions/*/bin", "~/*conda*/bin", "~/miniforge3/bin", "~/mambaforge/bin",
)  # fmt: skip
_ABOUT = """
import importlib.util, json, os, platform, sys, sysconfig
print(json.dumps({
    "path": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "platform": sysconfig.get_platform(),
    "libc": "-".join(platform.libc_ver()),
    "venv": all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")),
}))
"""


def find(most: int = _MOST_PYTHONS) -> Answer:
    """Returns the Pythons 3 of this host: path, version, platform, libc, and whether venvs can be made with it."""
    folders = os.environ.get("PATH", "").split(":") + [
        found for place in _PLACES for found in sorted(glob.glob(os.path.expanduser(place)))
    ]
    paths = []
    for folder in dict.fromkeys(folders):
        for name in (
            sorted(os.listdir(folder)) if os.path.isdir(folder) and os.access(folder, os.R_OK) else ()
        ):
            path = os.path.realpath(os.path.join(folder, name))
            if re.fullmatch(r"python3(\.\d+)?", name) and os.access(path, os.X_OK) and "/shims/" not in path:
                paths.append(path)
    found = [_about(path) for path in list(dict.fromkeys(paths))[:most]]
    return {"pythons": [told for told in found if told]}


def _about(python: str) -> Answer:
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        asked = subprocess.run(
            [python, "-I", "-c", _ABOUT],
            capture_output=True,
            timeout=_ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        told: Answer = json.loads(asked.stdout)
        return told
    return {}


OPERATIONS = {"find": find}
