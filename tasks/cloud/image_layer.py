"""A folder as an image layer: the same files make the same bytes, whoever packs them, when and where."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.disk import on_disk
from tasks.cloud.image_ignore import IGNORE_FILE, read_ignored

LARGEST = 2 << 30
"""Bytes of a folder that are taken for code; more is a data set, or a folder that was not meant."""

_LEVEL = 6


@dataclass(frozen=True)
class Layer:
    """A packed layer. `digest` and `size` are of the file, compressed; `diff_id` is of what it unpacks to.

    `left_out` is what no layer can hold, such as *run/agent is a socket*.
    """

    file: Path
    digest: str
    size: int
    diff_id: str
    files: int
    left_out: tuple[str, ...] = ()


def pack_layer(folder: Path, into: Path, below: str = "app") -> Layer:
    """Packs what .dockerignore leaves of a folder, as `below/…`, into a file.

    Owner, group and times are left out, of the mode only whether it is executable stays. Links stay links. Raises
    BadInput for a link that leads out of the folder, for nothing to pack and for too much; InfrastructureError when
    a file cannot be read or changes meanwhile.
    """
    with on_disk(f"read {folder}", "name another folder"):
        entries = list(_entries(folder))
        others = {name: _what(path) for name, path in entries if not _holds(path)}
    entries = [(name, path) for name, path in entries if name not in others]
    if not any(not path.is_dir() or path.is_symlink() for _, path in entries):
        raise BadInput(
            f"{folder} holds no files to put into an image", fix=f"name another folder, or see {IGNORE_FILE}"
        )
    _check_size(folder, entries)
    try:
        with on_disk(f"pack {folder}", "set TMPDIR to a folder on another disk"), into.open("wb") as raw:
            compressed = _Hashed(raw)
            # A file name or a time in the header of gzip would make each packing another one.
            with gzip.GzipFile(
                filename="", mode="wb", compresslevel=_LEVEL, fileobj=compressed, mtime=0
            ) as packed:
                plain = _Hashed(packed)
                _write(plain, entries, below)
    except tarfile.TarError as error:
        raise InfrastructureError(f"cannot pack {folder}: {error}; did it change meanwhile?") from error
    files = sum(1 for _, path in entries if not path.is_dir())
    return Layer(
        into,
        compressed.digest,
        into.stat().st_size,
        plain.digest,
        files,
        tuple(f"{name} is {what}" for name, what in others.items()),
    )


def check_folder(folder: Path) -> None:
    """Raises BadInput for a folder whose files nobody means to publish: the root, or somebody's home."""
    if not folder.is_dir():
        raise BadInput(f"--script-dir {folder} is not a folder")
    if folder.resolve() in (Path("/"), Path.home().resolve()):
        raise BadInput(
            f"--script-dir {folder.resolve()} would put keys and passwords into an image",
            fix="name the folder of your scripts",
        )


class _Hashed:
    """Hashes what is written through it."""

    def __init__(self, target: IO[bytes] | gzip.GzipFile) -> None:
        self._target, self._hash = target, hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._target.write(data)

    def flush(self) -> None:
        self._target.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields (name, path) of all that is not to be ignored, sorted."""
    spec = read_ignored(folder)
    kept: dict[str, Path] = {}
    for parent, folders, files in os.walk(folder, onerror=_fail):
        for name in (*folders, *files):
            path = Path(parent) / name
            relative = path.relative_to(folder).as_posix()
            if not spec.match_file(relative):
                kept[relative] = path
        if not _takes_back(spec):
            folders[:] = [
                name for name in folders if (Path(parent) / name).relative_to(folder).as_posix() in kept
            ]
    for name in list(kept):  # folders above what was taken back in
        for above in Path(name).parents:
            if above.as_posix() != ".":
                kept.setdefault(above.as_posix(), folder / above)
    yield from sorted(kept.items())


def _holds(path: Path) -> bool:
    """Whether a layer can hold it: a folder, a file or a link. To read a pipe would never end."""
    return path.is_symlink() or path.is_file() or path.is_dir()


def _what(path: Path) -> str:
    mode = path.lstat().st_mode
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def _fail(error: OSError) -> None:
    """Raises it: a folder that cannot be looked into is no empty one."""
    raise error


def _takes_back(spec: Any) -> bool:
    """Whether files may be taken back in whose folder is left out: then all folders have to be walked."""
    return any(pattern.include is False for pattern in spec.patterns)


def _check_size(folder: Path, entries: list[tuple[str, Path]]) -> None:
    below: dict[str, int] = {}
    for name, path in entries:
        if not path.is_symlink() and path.is_file():
            top = name.split("/")[0]
            below[top] = below.get(top, 0) + path.stat().st_size
    total = sum(below.values())
    if total > LARGEST:
        largest = sorted(below, key=lambda top: below[top], reverse=True)[:3]
        raise BadInput(
            f"{folder} holds {total / 2**30:.1f} GiB, and at most {LARGEST / 2**30:.0f} GiB go into a layer",
            fix=f"name what is not needed in {IGNORE_FILE}; the largest are {', '.join(largest)}",
        )


def _write(target: _Hashed, entries: list[tuple[str, Path]], below: str) -> None:
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        tar.addfile(_member(below, tarfile.DIRTYPE, 0o755))
        for name, path in entries:
            where = f"{below}/{name}"
            if path.is_symlink():
                link = _member(where, tarfile.SYMTYPE, 0o777)
                link.linkname = _inside(path, name)
                tar.addfile(link)
            elif path.is_dir():
                tar.addfile(_member(where, tarfile.DIRTYPE, 0o755))
            else:
                with path.open("rb") as file:
                    there = os.fstat(file.fileno())
                    executable = there.st_mode & stat.S_IXUSR
                    member = _member(where, tarfile.REGTYPE, 0o755 if executable else 0o644)
                    member.size = there.st_size
                    tar.addfile(member, file)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _inside(path: Path, name: str) -> str:
    link = str(path.readlink())
    if Path(link).is_absolute() or os.path.normpath(Path(name).parent / link).startswith(".."):
        raise BadInput(
            f"{path} is a link that leads out of the folder",
            fix=f"replace it by a copy, or name it in {IGNORE_FILE}",
        )
    return link
