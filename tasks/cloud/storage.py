"""Folders that may lie on this machine or in Cloud Storage, behind one small interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Folder(Protocol):
    """A folder that many may read and write. Names are relative, with forward slashes.

    Every method raises InfrastructureError, naming the file and the system's reason, when the storage fails.
    """

    uri: str

    def read(self, name: str) -> bytes | None:
        """Returns the content, or None when there is no such file."""

    def write(self, name: str, content: bytes) -> None:
        """Replaces the content as a whole: a reader sees the old or the new, never a part."""

    def create(self, name: str, content: bytes) -> bool:
        """Writes only where nothing is; returns False, having changed nothing, when the file exists."""

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yields the names of all files below `prefix`, sorted."""

    def delete(self, name: str) -> None:
        """Deletes a file; a missing one is no error."""

    def child(self, name: str) -> Folder:
        """Returns the folder below this one."""

    def upload(self, source: str, name: str) -> None:
        """Copies a local file in."""

    def download(self, name: str, destination: str) -> None:
        """Copies a file out to a local path."""


def open_folder(uri: str) -> Folder:
    """Opens a path or gs://bucket/prefix. Makes nothing. Raises BadInput for another scheme."""
    raise NotImplementedError
