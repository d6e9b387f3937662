"""Folders of repeats: removed when a repeat is over, and looked for once more when the suite is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from etils import epath

from runtime import distributed, folders
from runtime.benchmarks.benchmark import Context
from runtime.settings import Settings


class Leftovers:
    """What this worker's repeats leave on disks. Worker 0 removes what is shared, each worker what is its own."""

    def __init__(self, settings: Settings, references: epath.Path) -> None:
        """`references`: the folder of what the suite made for its own benchmarks."""
        self._keep, self._member = settings.keep_checkpoints, settings.membership
        self._references = references
        self._removed: list[epath.Path] = []

    @contextlib.contextmanager
    def gone_after(self, context: Context) -> Iterator[None]:
        """Removes the folders of the repeat that is run inside.

        After a failure only where the worker is alone: else siblings may still be writing there. A folder that stays
        then is told beside what failed, not instead of it.
        """
        try:
            yield
        except BaseException as error:
            if self._member.workers == 1:
                try:
                    self._remove(context)
                except OSError as stays:
                    error.add_note(f"And its folder stays: {stays}")
            raise
        if self._member.workers > 1:
            distributed.agree(None)
        self._remove(context)

    def sweep(self) -> None:
        """Removes what the suite made for its own benchmarks, once none is left that could read it, and folders that
        came again: TensorStore makes them anew for a file that it was about to write when a save was broken off. To be
        called by all workers.
        """
        if self._member.workers > 1:
            distributed.agree(None)
        if self._keep:
            return
        if self._member.worker == 0:
            folders.remove(self._references)
        for path in self._removed:
            if "://" not in str(path) and path.exists():
                self._empty(path)

    def _remove(self, context: Context) -> None:
        if self._keep:
            return
        shared = [context.path] if self._member.worker == 0 else []
        for path in (*shared, *([] if context.local_path is None else [context.local_path])):
            self._empty(path)
            self._removed.append(path)

    @staticmethod
    def _empty(path: epath.Path) -> None:
        folders.remove(path)
        folders.remove_if_empty(path.parent)
