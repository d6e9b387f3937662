"""A repeat's own folders, local or in Cloud Storage: made empty before, measured and removed after."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etils import epath

_STILL_WRITTEN_S = 60.0
"""How long others may go on writing into a folder that is to go."""

_QUIET_S = 0.5
"""Where no file was open or new for so long, nothing is written any more: TensorStore, with a save that was broken off,
pauses for 0.1 s at most between two files, on two busy cores."""

_LOOK_S = 0.02

STILL_WRITTEN = {errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY}
"""What removing a folder says that gets new files meanwhile; network folders also say it of files that are open."""


def make_empty(path: epath.Path) -> None:
    """Makes the folder; what an earlier attempt left there goes."""
    remove(path)
    path.mkdir(parents=True, exist_ok=True)


def remove(path: epath.Path, within_s: float = _STILL_WRITTEN_S) -> None:
    """Removes a folder with all that is in it; one that is gone, or that a sibling removes, is no error.

    Where something is still written there, it is removed again and again, for `within_s`; then what kept it is raised.
    """
    over = time.monotonic() + within_s
    while True:
        refused: OSError | None = None
        try:
            path.rmtree(missing_ok=True)
        except FileNotFoundError:
            pass  # of a part of it, which somebody renamed or removed; or of all
        except OSError as error:
            if error.errno not in STILL_WRITTEN:
                raise
            refused = error
        if "://" in str(path) or not path.exists():
            return
        if time.monotonic() > over:
            raise refused or OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        time.sleep(_LOOK_S)


def remove_if_empty(path: epath.Path) -> None:
    """Removes a folder that nothing is in any more; in a bucket there are no folders to remove."""
    if "://" not in str(path):
        with contextlib.suppress(OSError):
            os.rmdir(path)  # noqa: PTH106 (an epath.Path is no pathlib.Path)


def await_quiet(path: epath.Path, within_s: float) -> float | None:
    """Waits until nothing is written below a folder any more; returns when something was seen to be for the last time,
    on the monotonic clock, or None.

    It is told from the files that are there, and from those that this process has open; of a bucket nothing is told.
    Raises TimeoutError when something still is written after `within_s`.
    """
    if "://" in str(path):
        return None
    began = quiet_from = time.monotonic()
    last, known = None, contents(path)
    while (now := time.monotonic()) - quiet_from < _QUIET_S:
        if now - began > within_s:
            raise TimeoutError(f"files are still written in {path} after {within_s:g} s")
        found = contents(path)
        if found != known or _open_below(path):
            known, last, quiet_from = found, now, now
        time.sleep(_LOOK_S)
    return last


def contents(path: epath.Path) -> tuple[int, int]:
    """Returns how many files lie below a folder, and their bytes."""
    sizes = list(_sizes(path))
    return len(sizes), sum(sizes)


def _open_below(path: epath.Path) -> bool:
    """Whether this process has a file open below a folder, removed or not; where that cannot be told, it has none."""
    inside, mine = os.path.realpath(path) + os.sep, "/proc/self/fd"
    with contextlib.suppress(FileNotFoundError):
        for number in os.listdir(mine):  # noqa: PTH208 (many files: no Path each)
            with contextlib.suppress(OSError):
                if os.readlink(f"{mine}/{number}").startswith(inside):  # noqa: PTH115
                    return True
    return False


def _sizes(path: epath.Path) -> Iterator[int]:
    if "://" in str(path):
        yield from _sizes_in_bucket(str(path))
        return
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                yield os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 (many files: no Path each)


def _sizes_in_bucket(uri: str) -> Iterator[int]:
    """One listing tells all sizes; an epath.Path would ask for each object by itself."""
    import fsspec

    storage, folder = fsspec.core.url_to_fs(uri)
    storage.invalidate_cache()
    for found in storage.find(folder, detail=True).values():
        yield int(found["size"])
