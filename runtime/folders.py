"""A repeat's own folders, local or in Cloud Storage: made empty before, measured and removed after."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etils import epath


def make_empty(path: epath.Path) -> None:
    """Makes the folder; what an earlier attempt left there goes."""
    remove(path)
    path.mkdir(parents=True, exist_ok=True)


def remove(path: epath.Path) -> None:
    """Removes a folder with all that is in it; one that is gone, or that a sibling removes, is no error."""
    with contextlib.suppress(FileNotFoundError):
        path.rmtree(missing_ok=True)


def remove_if_empty(path: epath.Path) -> None:
    """Removes a folder that nothing is in any more; in a bucket there are no folders to remove."""
    if "://" not in str(path):
        with contextlib.suppress(OSError):
            os.rmdir(path)  # noqa: PTH106 (an epath.Path is no pathlib.Path)


def contents(path: epath.Path) -> tuple[int, int]:
    """Returns how many files lie below a folder, and their bytes."""
    sizes = list(_sizes(path))
    return len(sizes), sum(sizes)


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
