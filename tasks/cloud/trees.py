"""Source trees on this machine: content-addressed, so that what is built is what was hashed."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError

PACKAGE_FOLDERS = ("", "checkpoint")
"""Where in a repository the package may lie; Orbax keeps orbax-checkpoint in `checkpoint/`."""

WORKING_TREE = "working tree"
"""The ref of a tree taken as it lay on this machine."""

_NEVER_COPIED = {
    ".git",
    ".hg",
    "__pycache__",
    ".venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    "node_modules",
}


@dataclass(frozen=True)
class Tree:
    """The source of one package. `folder` holds pyproject.toml and is never written to.

    `digest` is a hash over names, modes and contents. `repo` is without credentials. `commit` is the full
    hash, None where there is no git; `dirty` tells that the files differ from it.
    """

    folder: Path
    digest: str
    repo: str
    ref: str
    commit: str | None
    dirty: bool

    def record(self) -> dict[str, str]:
        """Returns what is written down about where the code came from."""
        return {
            "repo": self.repo,
            "ref": self.ref,
            "commit": self.commit or "",
            "dirty": str(self.dirty).lower(),
            "tree": self.digest,
        }


def package_folder(top: Path, shown: str) -> str:
    """Returns where below `top` the package lies: "" or "checkpoint". Raises BadInput when there is none."""
    # The subfolder first: a root that holds several packages may have a pyproject.toml for tools alone.
    for folder in reversed(PACKAGE_FOLDERS):
        if (top / folder / "pyproject.toml").is_file():
            return folder
    raise BadInput(
        f"{shown} holds no Python package: no pyproject.toml in it or in checkpoint/",
        fix="name a repository or folder of orbax-checkpoint",
    )


def digest(folder: Path) -> str:
    """Returns a SHA-256 over all files below a folder: names, executable or not, contents, link targets."""
    total = hashlib.sha256()
    for name in sorted(_walk(folder)):
        total.update(_entry(folder / name, name))
    return total.hexdigest()


def digest_of(top: Path, names: Iterable[str]) -> str:
    """Returns what `digest` would say of a folder holding just these files of `top`."""
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(_entry(top / name, name))
    return total.hexdigest()


def files_below(folder: Path) -> list[str]:
    """Returns the files of a folder that git does not know, without caches and the like."""
    return sorted(_walk(folder))


def copy_files(top: Path, names: Iterable[str], target: Path) -> None:
    """Copies files and links. Raises BadInput for a link that leads out of the tree."""
    for name in names:
        source, copy = top / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            link = str(source.readlink())
            end = os.path.normpath(Path(name).parent / link)
            if Path(link).is_absolute() or end.startswith(".."):
                raise BadInput(f"{source} is a link that leads out of the tree", fix="replace it by a copy")
            copy.symlink_to(link)
        else:
            shutil.copy2(source, copy)


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a tar that git made. Raises BadInput for members that would leave the folder."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    except tarfile.FilterError as error:
        raise BadInput(f"the source tree is not safe to unpack: {error}") from error


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yields a new folder below `parent`; what is left of it at the end is deleted."""
    folder = parent / f".new-{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        where = error.filename or folder
        raise InfrastructureError(
            f"{where}: {error.strerror or error}; free some space, or look at it"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(folder: Path, destination: Path) -> None:
    """Gives a finished folder its content-addressed name; the same content may be there already."""
    try:
        folder.rename(destination)
    except OSError:
        if not destination.is_dir():
            raise
    os.utime(destination)


def prune_trees(sources: Path, *, older_than_s: float) -> None:
    """Deletes trees, and what killed processes left half-made, that nobody has used for so long."""
    oldest = time.time() - older_than_s
    trees = sources / "trees"
    for tree in list(trees.iterdir()) if trees.is_dir() else []:
        if tree.stat().st_mtime < oldest:
            shutil.rmtree(tree, ignore_errors=True)


def _walk(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NEVER_COPIED]
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*files, *links):
            path = Path(parent) / name
            if path.is_symlink() or path.is_file():  # no pipes or sockets: reading one would never end
                yield path.relative_to(folder).as_posix()


def _entry(path: Path, name: str) -> bytes:
    if path.is_symlink():
        kind, content = b"l", str(path.readlink()).encode()
    else:
        executable = path.stat().st_mode & stat.S_IXUSR
        kind, content = b"x" if executable else b"f", path.read_bytes()
    hashed = hashlib.sha256(content).digest()
    return kind + b"\0" + name.encode(errors="surrogateescape") + b"\0" + hashed
