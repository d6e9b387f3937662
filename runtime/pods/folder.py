"""The run's folder as a pod sees it: a path, or a bucket, whatever is asked for anew each time."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError
from runtime.output import is_remote
from runtime.pods.bucket import Bucket, NotPlainError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class RunFolder:
    """Reads and makes small files. Raises InfrastructureError when the storage does not answer."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._bucket = Bucket(self.uri) if self.uri.startswith("gs://") else None

    def read(self, name: str) -> bytes | None:
        """Returns what a file holds now, or None when it is not there."""
        try:
            if not is_remote(self.uri):
                return Path(self.uri, name).read_bytes()
            if self._bucket is not None:
                try:
                    return self._bucket.read(name)
                except NotPlainError:
                    self._bucket = None
            storage, root = self._storage
            content: bytes = storage.cat_file(f"{root}/{name}")  # asks the bucket: nothing of it is cached
        except FileNotFoundError:
            return None
        except Exception as error:  # storage libraries raise what they like, Google's credentials among it
            raise InfrastructureError(
                f"cannot read {self.uri}/{name}: {error}; see that the pod's service account may read it"
            ) from error
        return content

    def create(self, name: str, content: bytes) -> bool:
        """Makes a file; False: it is there already."""
        try:
            if not is_remote(self.uri):
                path = Path(self.uri, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(content)
                return True
            if self._bucket is not None:
                try:
                    return self._bucket.create(name, content)
                except NotPlainError:
                    self._bucket = None
            storage, root = self._storage
            storage.pipe_file(f"{root}/{name}", content, mode="create")
        except FileExistsError:
            return False
        except Exception as error:  # see read
            raise InfrastructureError(
                f"cannot write {self.uri}/{name}: {error}; see that the pod's service account may write it"
            ) from error
        return True

    def wanted(self, name: str) -> bytes:
        """Returns what a file holds. Raises InfrastructureError when it is not there."""
        content = self.read(name)
        if content is None:
            raise InfrastructureError(f"{self.uri}/{name} is not there: was the run's folder deleted?")
        return content

    @functools.cached_property
    def _storage(self) -> tuple[AbstractFileSystem, str]:
        import fsspec

        storage, root = fsspec.core.url_to_fs(self.uri)
        return storage, str(root)
