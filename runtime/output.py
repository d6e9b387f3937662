"""Puts files into a run's folder, on this machine or in a bucket, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from runtime.contract.sidecar import RECORDS_FOLDER, RECORDS_VARIABLE


def folder_name(benchmark: str, key: str) -> str:
    """Returns a benchmark's folder in a run; its name is cut and cleaned, the key tells it from others."""
    return f"{re.sub('[^A-Za-z0-9_.,=+-]+', '_', benchmark)[:150].strip('._')}_{key}"


def is_remote(output: str) -> bool:
    """Whether a run's folder lies in an object store."""
    return "://" in output


@contextlib.contextmanager
def placing(output: str, name: str, scratch: Path) -> Iterator[Path]:
    """Yields a path to write to; on a good end the file appears as `output/name` in one step.

    For a bucket the file is written below `scratch` first. Raises InfrastructureError when that fails.
    """
    remote = is_remote(output)
    target = Path(scratch if remote else output, name)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if remote:
            _copy(temporary, output, name)
        else:
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
    except OSError as error:
        raise write_failed(f"{output}/{name}", error) from error
    finally:
        with contextlib.suppress(OSError):  # its folder may be what failed
            temporary.unlink(missing_ok=True)


def publish(folder: Path, output: str, name: str) -> list[str]:
    """Copies every file below a local folder to `output/name`; nothing to do when that is the folder itself.

    Returns the names of the files, sorted, relative to the folder. Raises InfrastructureError when copying
    fails.
    """
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    if is_remote(output) or Path(output, name).resolve() != folder.resolve():
        try:
            for file in files:
                _copy(folder / file, output, f"{name}/{file}")
        except OSError as error:
            raise write_failed(f"{output}/{name}", error) from error
    return files


def write_failed(path: Path | str, error: OSError) -> InfrastructureError:
    """Returns the error to raise when `path` could not be written."""
    return InfrastructureError(
        f"cannot write {path}: {error.strerror or error}; samples taken so far are kept; free space, or "
        "choose another --output"
    )


def publish_records(scratch: Path, output: str) -> None:
    """Copies what a worker left there for the run's folder. Raises InfrastructureError when copying fails."""
    records = scratch / RECORDS_FOLDER
    for file in sorted(path for path in records.rglob("*") if path.is_file()):
        try:
            _copy(file, output, str(file.relative_to(records)))
        except OSError as error:
            raise write_failed(f"{output}/{file.relative_to(records)}", error) from error


def _copy(source: Path, output: str, name: str) -> None:
    """Copies a file into the run's folder. Where a sidecar sees what goes to buckets, others do that afterwards:
    numbers and logs are read without its help."""
    from etils import epath

    records = os.environ.get(RECORDS_VARIABLE)
    target = epath.Path(records if records and is_remote(output) else output) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    epath.Path(source).copy(target, overwrite=True)  # an upload to a bucket is whole or absent
