"""Kits: what hosts make their venvs of. Pins with hashes and, for code under test, its wheel, built once here."""

from __future__ import annotations

import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.resolve import pins
from tasks.cloud.trees import put, scratch_folder
from tasks.cloud.venvs import Recipe, build_wheel

Say = Callable[[str], None]

PINS_FILE, WHEEL_FILE = "requirements.txt", "source.whl"

SHOWN = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy", "cryptography", "tink")
_BASE = "packages of code under test"


@dataclass(frozen=True)
class Kit:
    """A complete kit. `key` names the whole venv, `base` the part of it that the code under test is laid over: the
    same where there is none.
    """

    key: str
    base: str
    folder: Path

    @property
    def files(self) -> Mapping[str, str]:
        """Returns its files, name → path here."""
        return {
            path.name: str(path) for path in sorted(self.folder.iterdir()) if path.suffix in (".txt", ".whl")
        }

    @property
    def versions(self) -> dict[str, str]:
        """Returns the pinned versions that matter, but for those that depend on the Python."""
        return shown_versions((self.folder / PINS_FILE).read_text())


def shown_versions(requirements: str) -> dict[str, str]:
    """Returns the pinned versions that matter of a requirements file, but for those that depend on the Python."""
    once = {
        name: version
        for name, version in pins(requirements).items()
        if requirements.count(f"\n{name}==") <= 1
    }
    return {name: once[name] for name in SHOWN if name in once}


def make_kit(recipe: Recipe, kits: Path, *, say: Say) -> tuple[Kit, bool]:
    """Returns the kit of a recipe, and whether it was there already. Raises BadInput for a source that is no Orbax,
    or whose wheel is not for any machine.
    """
    key = recipe.key()
    if (kit := read_kit(key, kits)) is not None:
        return kit, True
    base = key if recipe.source is None else replace(recipe, source=None, digest=_BASE).key()
    with scratch_folder(kits) as new:
        index = f"--extra-index-url {recipe.jax_index}\n" if recipe.jax_index else ""
        (new / PINS_FILE).write_text(index + recipe.requirements)
        (new / "base").write_text(base)
        if recipe.source is not None:
            say(f"building the code under test for {key}")
            work = new / "work"
            work.mkdir()
            shutil.move(_checked(build_wheel(recipe.source, sys.executable, work)), new / WHEEL_FILE)
            shutil.rmtree(work)
        put(new, kits / key)
    return Kit(key, base, kits / key), False


def read_kit(key: str, kits: Path) -> Kit | None:
    """Returns the kit of that key, when it is there."""
    try:
        kit = Kit(key, (kits / key / "base").read_text(), kits / key)
        os.utime(kit.folder)
        return kit
    except (FileNotFoundError, NotADirectoryError):
        return None


def _checked(wheel: Path) -> Path:
    """Refuses a wheel that runs on some machines only: hosts may be others than this one."""
    with zipfile.ZipFile(wheel) as archive:
        anywhere = not any(".data/" in name for name in archive.namelist())
    if not (wheel.name.endswith("-none-any.whl") and anywhere):
        raise BadInput(
            f"the source builds {wheel.name}, which is not plain Python", fix="install it there, as python:"
        )
    return wheel


def prune_kits(kits: Path, *, older_than_s: float) -> None:
    """Deletes kits, and what killed processes left half-made, that nobody has used for so long."""
    oldest = time.time() - older_than_s
    for kit in list(kits.iterdir()):
        if kit.stat().st_mtime < oldest:
            shutil.rmtree(kit, ignore_errors=True)
