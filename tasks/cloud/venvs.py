"""Venvs keyed by their content: made once, reused, never deleted in use or taken for complete too soon."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.record import record_of
from tasks.cloud.command import clean_environment, run_command
from tasks.cloud.installed import damaged_files
from tasks.cloud.local_storage import replacing
from tasks.cloud.locks import hold_shared, if_free, locked
from tasks.cloud.uv import run_uv

Say = Callable[[str], None]

_RECIPE = "1"
"""Goes up when the way venvs are made changes, so that old ones are not reused."""
_COMPLETE = "complete.json"
_WAIT_S = 3600.0
_LOOK_S = 60.0
_SHOWN = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy")
_ASK_VERSION = "import sys; print(sys.version.split()[0])"

_held: dict[Path, int] = {}
"""Shared locks of the venvs that this process uses, until it ends."""


@dataclass(frozen=True)
class Recipe:
    """All that a venv depends on. `requirements` are pins with hashes; `source`: a tree to build Orbax from.

    `digest` identifies that tree. `jax` and `extras` only serve to say what changed: pins follow from them.
    `python` is what of its Python the venv depends on.
    """

    requirements: str
    jax: str = "locked"
    extras: tuple[str, ...] = ()
    jax_index: str | None = None
    source: Path | None = None
    digest: str = "released"
    python: str = field(default_factory=lambda: python_identity())

    def inputs(self) -> dict[str, str]:
        """Returns the inputs by name, for the key and for people."""
        return {
            "recipe": _RECIPE,
            "python": self.python,
            "packages": hashlib.sha256(self.requirements.encode()).hexdigest(),
            "jax": self.jax,
            "extras": ",".join(self.extras),
            "source": self.digest,
        }

    def key(self) -> str:
        """Returns the name of the venv: a hash over the inputs."""
        canonical = json.dumps(self.inputs(), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Venv:
    """A complete venv. `packages` are all distributions in it, name → version.

    `built_at` is seconds since the epoch, `seconds` how long it took; `about`: where the source came from.
    """

    key: str
    python: str
    inputs: Mapping[str, str]
    packages: Mapping[str, str]
    built_at: float
    seconds: float
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def versions(self) -> dict[str, str]:
        """The versions that matter to a measurement."""
        return {name: self.packages[name] for name in (*_SHOWN, "python") if name in self.packages}


def python_identity() -> str:
    """Returns what of this Python a venv depends on."""
    libc = "-".join(platform.libc_ver())
    return f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()} {libc}"


def make_venv(recipe: Recipe, venvs: Path, *, say: Say, about: Mapping[str, str]) -> tuple[Venv, bool]:
    """Returns the venv of a recipe and whether it was there already; this process keeps it from being pruned.

    Of two that want the same, one waits. `about` is written beside it: where the source came from. Raises
    InfrastructureError when disk or index fail; then nothing is left that could pass for a venv.
    """
    key = recipe.key()
    folder = venvs / key
    with locked(venvs / f"{key}.lock", f"building venv {key}", say=say, timeout_s=_WAIT_S):
        if folder not in _held:
            _held[folder] = hold_shared(venvs / f"{key}.use")
        venv = read_venv(folder)
        if venv is not None:
            fault = _fault(venv, folder)
            if fault is None:
                os.utime(folder / _COMPLETE)
                return venv, True
            say(f"venv {key} is made anew: {fault}")
        with _nothing_on_failure(folder):
            began = time.monotonic()
            say(f"building venv {key}")
            _fill(recipe, folder)
            python = str(folder / "bin" / "python")
            packages = _packages(folder)
            venv = Venv(key, python, recipe.inputs(), packages, time.time(), time.monotonic() - began, about)
            fault = _fault(venv, folder)
            if fault is not None:
                raise InfrastructureError(f"venv {key}: {fault}; uv's cache is damaged: run `uv cache clean`")
            with replacing(folder / _COMPLETE) as file:
                file.write(json.dumps(asdict(venv), indent=1, sort_keys=True).encode())
    return venv, False


def adopt_venv(key: str, venvs: Path) -> Venv | None:
    """Returns the venv of that key when it is there and sound; this process keeps it from being pruned."""
    folder = venvs / key
    venv = read_venv(folder)
    if venv is None:
        return None
    if folder not in _held:
        _held[folder] = hold_shared(venvs / f"{key}.use")
    # Only now is it safe from pruning, so only now it can be looked at.
    return venv if read_venv(folder) is not None and _fault(venv, folder) is None else None


def read_venv(folder: Path) -> Venv | None:
    """Returns the venv in a folder when it is complete."""
    try:
        # Where it lies is not for the file to say: $SLICEBENCH_HOME may have been moved, or reached by a link.
        told = json.loads((folder / _COMPLETE).read_text())
        return record_of(Venv, told, python=str(folder / "bin" / "python"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError):
        return None  # a disk lost it, or parts of it: it is made anew


def all_venvs(venvs: Path) -> list[Venv]:
    """Returns the complete venvs, the last built first."""
    found = [read_venv(folder) for folder in venvs.iterdir()] if venvs.is_dir() else []
    return sorted((venv for venv in found if venv), key=lambda venv: venv.built_at, reverse=True)


def prune(venvs: Path, *, keep: int, say: Say) -> list[str]:
    """Deletes all but the `keep` last used venvs, and half-made ones; none in use. Returns their keys."""

    def used_at(folder: Path) -> float:
        mark = folder / _COMPLETE
        return mark.stat().st_mtime if mark.exists() else 0.0

    deleted = []
    folders = [path for path in venvs.iterdir() if path.is_dir()] if venvs.is_dir() else []
    for folder in sorted(folders, key=used_at, reverse=True)[keep:]:
        with (
            if_free(venvs / f"{folder.name}.lock") as unbuilt,
            if_free(venvs / f"{folder.name}.use") as unused,
        ):
            if unbuilt and unused:
                say(f"deleting venv {folder.name}, not used of late")
                _delete(folder)
                deleted.append(folder.name)
    return deleted


def _fill(recipe: Recipe, folder: Path) -> None:
    run_uv("venv", "--quiet", "--no-project", "--python", sys.executable, str(folder), cwd=folder.parent)
    python = str(folder / "bin" / "python")
    work = folder / ".build"
    work.mkdir()
    pins = work / "requirements.txt"
    pins.write_text(recipe.requirements)
    # Compiled once here, not by every worker at its first start, or never where Python is told to write no bytecode.
    install = ["pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    pinned = ["--require-hashes", "--no-deps", "--requirement", str(pins)]
    run_uv(*install, *pinned, jax_index=recipe.jax_index, cwd=work)
    if recipe.source is not None:
        run_uv(*install, "--no-deps", str(build_wheel(recipe.source, python, work)), cwd=work)
    shutil.rmtree(work)


def build_wheel(source: Path, python: str, work: Path) -> Path:
    """Builds a source tree with an interpreter in `work`, and returns the wheel. Raises BadInput when it does not."""
    # From a copy: build backends write into the tree, and that one is named by its content.
    copy = work / "source"
    shutil.copytree(source, copy, symlinks=True)
    # Not quietly: that would hide why a backend fails.
    run_uv(
        "build", "--wheel", "--python", python, "--out-dir", str(work / "wheel"), str(copy),
        foreign_code=True,
        cwd=work,
    )  # fmt: skip
    wheels = list((work / "wheel").glob("*.whl"))
    if len(wheels) != 1 or not wheels[0].name.startswith("orbax_checkpoint-"):
        names = ", ".join(wheel.name for wheel in wheels) or "nothing"
        raise BadInput(f"the source builds {names}, not orbax-checkpoint", fix="name a repository of Orbax")
    return wheels[0]


def _packages(folder: Path) -> dict[str, str]:
    """Returns the versions of a venv's Python and of all that is installed in it.

    Raises InfrastructureError when that Python does not run. It is asked for its version only, and what is installed
    is read off the folders' names
    (https://packaging.python.org/en/latest/specifications/recording-installed-packages/): to import what lists
    distributions and to parse their metadata takes longer than all the rest, and every run waits.
    """
    python = str(folder / "bin" / "python")
    asked = run_command([python, "-I", "-S", "-c", _ASK_VERSION], env=clean_environment(), timeout_s=_LOOK_S)
    if asked.code != 0:
        raise InfrastructureError(f"{python} does not run: {asked.errors.strip()[-300:]}")
    found = [path.stem.partition("-") for path in folder.glob("lib/python*/site-packages/*.dist-info")]
    return {
        "python": asked.text.strip(),
        **{name.lower().replace("_", "-"): version for name, _, version in found},
    }


def _fault(venv: Venv, folder: Path) -> str | None:
    """Returns what is wrong with a complete venv: its Python is gone, or its code is not what it was."""
    try:
        packages = _packages(folder)
    except InfrastructureError as error:
        return str(error)
    if packages != venv.packages:
        return "other packages were installed into it"
    damaged = damaged_files(folder, "orbax-checkpoint")
    return f"{damaged[0]} was changed" if damaged else None


@contextmanager
def _nothing_on_failure(folder: Path) -> Iterator[None]:
    _delete(folder)
    try:
        yield
    except BaseException as error:
        _delete(folder)
        if isinstance(error, OSError):
            where = error.filename or folder
            raise InfrastructureError(
                f"{where}: {error.strerror or error}; free some space, or move it"
            ) from error
        raise


def _delete(folder: Path) -> None:
    (folder / _COMPLETE).unlink(missing_ok=True)  # first: half a venv must not look whole
    shutil.rmtree(folder, ignore_errors=True)
