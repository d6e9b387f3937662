"""A folder on this machine, or on a file system it mounts; a write is whole or not there at all."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import checked_name

_TEMPORARY = ".slicebench-tmp"

ABANDONED_S = 86400.0
"""A hidden file that nobody wrote to for so long was left by a writer that was killed: a write takes minutes."""

_PIECE = 1 << 20
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_FIXES = {
    errno.ENOSPC: "free some space, or use a folder on another disk",
    errno.EDQUOT: "your quota there is used up: free some space, or use another folder",
    errno.EACCES: "give yourself the right to it, or use another folder",
    errno.EROFS: "the file system is read-only: use another folder",
}


class LocalFolder:
    """See Folder. Writes go to a hidden file beside the target, are synced, then renamed over it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uri = str(path)

    def __repr__(self) -> str:
        return f"LocalFolder({self.uri!r})"

    def read(self, name: str, start: int = 0) -> bytes | None:
        """See Folder."""
        path = self._path(name)
        with _told(path):
            try:
                with path.open("rb") as file:
                    file.seek(start if start >= 0 else max(0, os.fstat(file.fileno()).st_size + start))
                    return file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, name: str, content: bytes) -> None:
        """See Folder."""
        with replacing(self._path(name)) as file:
            file.write(content)

    def create(self, name: str, content: bytes) -> bool:
        """See Folder."""
        path = self._path(name)
        with _told(path):
            if path.exists():
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft(path) as (temporary, file):
                file.write(content)
                sync(file)
                try:
                    os.link(temporary, path)
                except FileExistsError:
                    return False
                except OSError as error:
                    if error.errno not in _NO_HARD_LINKS:
                        raise
                    return _create_in_place(path, content)
            sync_folder(path.parent)
            return True

    def names(self, prefix: str = "") -> Iterator[str]:
        """See Folder."""
        top = self._path(prefix.strip("/")) if prefix.strip("/") else self.path
        found: list[str] = []
        with _told(top):
            for folder, _, files in os.walk(top, onerror=_raise_unless_missing):
                found += [
                    (Path(folder) / file).relative_to(self.path).as_posix()
                    for file in files
                    if not file.endswith(_TEMPORARY)
                ]
        yield from sorted(found)

    def folders(self) -> Iterator[str]:
        """See Folder."""
        with _told(self.path):
            try:
                found = [entry.name for entry in os.scandir(self.path) if entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                found = []
        yield from sorted(found)

    def delete(self, name: str) -> None:
        """See Folder."""
        path = self._path(name)
        with _told(path), suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def child(self, name: str) -> LocalFolder:
        """See Folder."""
        return LocalFolder(self._path(name))

    def upload(self, source: str, name: str) -> None:
        """See Folder."""
        with _told(Path(source)), Path(source).open("rb") as original, replacing(self._path(name)) as file:
            while piece := original.read(_PIECE):
                file.write(piece)

    def _path(self, name: str) -> Path:
        return self.path / checked_name(name)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yields a file that takes the place of `path` as a whole when the block ends, and not when it raises.

    Makes the folders above. Of `mode` the umask is taken. A device or a pipe, such as /dev/stdout, is written to where
    it is. Raises InfrastructureError with the system's reason when the disk fails.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        with _told(path), path.open("wb") as there:
            yield there
        return
    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft(path, mode) as (temporary, file):
            yield file
            sync(file)
            temporary.replace(path)
        sync_folder(path.parent)


@contextmanager
def draft(path: Path, mode: int = 0o666) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yields a new hidden file beside `path`, by its path and opened; unless it is renamed it goes with the block.

    Raises OSError. Whoever is killed within leaves it behind.
    """
    # Opened by hand rather than by tempfile, whose files only their owner can read, whatever the umask.
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(16).hex()}{_TEMPORARY}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield temporary, file
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def clear_drafts(top: Path) -> int:
    """Deletes what writers that were killed left in a folder and below; returns how many files that were."""
    count, before = 0, time.time() - ABANDONED_S
    with _told(top):
        for folder, _, files in os.walk(top, onerror=_raise_unless_missing):
            for path in (Path(folder) / file for file in files if file.endswith(_TEMPORARY)):
                with suppress(FileNotFoundError):  # its writer is through, or another cleared it away
                    if path.stat().st_mtime < before:
                        path.unlink()
                        count += 1
    return count


def _create_in_place(path: Path, content: bytes) -> bool:
    # For file systems without hard links (FUSE, FAT): exclusive, though a reader may see a part of it.
    try:
        with path.open("xb") as file:
            file.write(content)
            sync(file)
    except FileExistsError:
        return False
    return True


def sync(file: IO[bytes]) -> None:
    """Brings to the disk what was written to a file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Brings renames in a folder to the disk: without this a power cut may lose one whose content is safe."""
    # Some file systems refuse: so be it.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not the system's word: the block talked to something else, a network say
            raise
        where = error.filename
        if not isinstance(where, str) or where.endswith(_TEMPORARY):
            where = path
        fix = _FIXES.get(error.errno or 0)
        raise InfrastructureError(f"{where}: {error.strerror or error}{f'; {fix}' if fix else ''}") from error
