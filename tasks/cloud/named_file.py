"""A file that somebody names with --to: nothing that is there is lost unasked, and what fails leaves nothing."""

from __future__ import annotations

import errno
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.local_storage import replacing

_NEVER = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
"""What is wrong with the name that was given, and not with the disk."""


def refuse_there(file: Path, *, force: bool) -> None:
    """Raises BadInput for a folder, a file in a folder that is not there, and one that is there, unless `force`.

    A device or a pipe, such as /dev/stdout, is there, and loses nothing.
    """
    file = file.expanduser()
    if file.is_dir():
        raise BadInput(f"--to {file}: that is a folder", fix="name a file in it")
    if not file.parent.is_dir():
        raise BadInput(f"--to {file}: there is no such folder", fix=f"make it: mkdir -p {file.parent}")
    if file.is_file() and not force:
        raise BadInput(
            f"{file} is there already", fix="name another with --to, or write over it with --force"
        )


def write_named(file: Path, content: bytes, *, force: bool, mode: int = 0o666) -> None:
    """Writes the file as a whole.

    Raises what `refuse_there` does, BadInput for one that can never be written, and InfrastructureError when the disk
    fails.
    """
    refuse_there(file, force=force)
    try:
        with replacing(file.expanduser(), mode) as out:
            out.write(content)
    except InfrastructureError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NEVER:
            raise BadInput(f"--to {file}: {error}") from error
        raise
