"""The folder an image is built from: Dockerfile, pins with hashes, the code under test as a wheel, the runtime."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tasks.cloud.kits import PINS_FILE, WHEEL_FILE, Kit
from tasks.cloud.resolve import RUNTIME
from tasks.cloud.trees import copy_files, digest_of, files_below
from tasks.cloud.uv import uv_environment

_ADDRESS = re.compile(r"https?://[^\s,]+")


def inputs_of(dockerfile: str, kit: str, base: str) -> dict[str, str]:
    """Returns all that an image depends on, by name; the same inputs are the same image. `kit` is the key of one."""
    return {
        "dockerfile": hashlib.sha256(dockerfile.encode()).hexdigest(),
        "base": base,
        "kit": kit,
        "runtime": digest_of(RUNTIME, files_below(RUNTIME)),
    }


def fill_context(dockerfile: str, kit: Kit, folder: Path) -> None:
    """Fills an empty folder."""
    (folder / "Dockerfile").write_text(dockerfile)
    shutil.copy(kit.folder / PINS_FILE, folder / "requirements.txt")
    copy_files(RUNTIME, files_below(RUNTIME), folder / "runtime")
    (folder / "source").mkdir()
    wheel = kit.folder / WHEEL_FILE
    if wheel.is_file():
        shutil.copy(wheel, folder / "source" / _name_of(wheel))


def pip_settings(environ: Mapping[str, str] = os.environ) -> str | None:
    """Returns a pip.conf that leads to the package indexes used here; None where they are the usual one.

    Folders of this machine are left out: a build does not see them.
    """
    env = uv_environment(environ)
    named = {
        "index-url": env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL"),
        "extra-index-url": env.get("UV_INDEX") or env.get("UV_EXTRA_INDEX_URL"),
        "find-links": env.get("UV_FIND_LINKS"),
    }
    # uv's may have names (NAME=URL), which pip does not know.
    reached = {option: _ADDRESS.findall(value or "") for option, value in named.items()}
    lines = [f"{option} = {' '.join(addresses)}" for option, addresses in reached.items() if addresses]
    return "\n".join(["[global]", *lines, ""]) if lines else None


def _name_of(wheel: Path) -> str:
    """Returns the name that pip wants a wheel to have."""
    with zipfile.ZipFile(wheel) as archive:
        inside = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return f"{inside.removesuffix('.dist-info/METADATA')}-py3-none-any.whl"
