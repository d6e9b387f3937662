"""Whether a checkpoint is in this host's page cache, and how to get it out: what was just written is read from memory.

Only `drop_everything` needs root. What lies in a bucket is in nobody's page cache; what a disk, a hypervisor or a
server keeps in memory of its own cannot be seen from here.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST_FILES = 2000
"""Files that are looked into; of more the first ones stand for all."""

_WINDOW = 1 << 30
"""Bytes of a file that are looked at in one go: one byte of memory for each page of them."""

_DROP = Path("/proc/sys/vm/drop_caches")


def evict(folders: Iterable[str]) -> None:
    """Lets the kernel forget what it holds of the files below these folders; what is not on disk yet goes there first.

    A file that somebody has mapped, and one that goes meanwhile, stays as it is.
    """
    for path in _files(folders):
        with contextlib.suppress(OSError), _opened(path) as fd:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_everything() -> bool:
    """Lets the kernel forget all files of this host, and their names; says whether it may: that takes root."""
    os.sync()
    try:
        _DROP.write_text("3\n")
    except OSError:
        return False
    return True


def cached_share(folders: Iterable[str]) -> float | None:
    """Returns which part of the bytes below these folders is in the page cache; None where that cannot be told."""
    total = held = 0
    for number, path in enumerate(_files(folders)):
        if number == MOST_FILES:
            break
        try:
            with _opened(path) as fd:
                size = os.fstat(fd).st_size
                if size:
                    held += _resident(fd, size)
                    total += size
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return held / total if total else None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def _files(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                yield os.path.join(place, name)  # noqa: PTH118 (many files: no Path each)


def _resident(fd: int, size: int) -> int:
    """Returns how many bytes of a file are in memory, by mincore: no page is touched."""
    libc = _libc()
    held = 0
    for start in range(0, size, _WINDOW):
        length = min(_WINDOW, size - start)
        address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
        if address is None or address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "a file cannot be mapped")
        try:
            pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
            if libc.mincore(address, length, pages) != 0:
                raise OSError(ctypes.get_errno(), "mincore is denied")
        finally:
            libc.munmap(address, length)
        inside = bytes(pages).translate(_LOWEST_BIT)
        held += min(inside.count(1) * mmap.PAGESIZE, length)
    return held


_LOWEST_BIT = bytes(value & 1 for value in range(256))


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [pointer, size]
    libc.mincore.argtypes = [pointer, size, ctypes.c_void_p]
    return libc
