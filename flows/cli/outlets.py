"""stdout and stderr while a command runs: an answer that cannot be written is an error, a remark is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from runtime.contract.errors import ExitCode, SlicebenchError


class Unwritable(SlicebenchError):
    """What was asked for cannot be told: the disk is full, or there is no stdout. Neither input nor service is bad."""

    exit_code = ExitCode.INFRASTRUCTURE


@contextmanager
def outlets() -> Iterator[None]:
    """Within, what cannot be written to stdout raises Unwritable, and what cannot be written to stderr is left out.

    A reader of stdout who left is none of these: that raises BrokenPipeError as ever.
    """
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, _Answers(out)), cast(TextIO, _Remarks(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def let_go_of_stdout() -> None:
    """Drops what is still to be written there: Python would fail once more at its end."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class _Outlet:
    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Answers(_Outlet):
    def write(self, text: str) -> int:
        if self._stream is None:
            raise Unwritable("stdout cannot be written: it is closed")
        with _told():
            return self._stream.write(text)

    def flush(self) -> None:
        if self._stream is not None:
            with _told():
                self._stream.flush()


class _Remarks(_Outlet):
    """Work that is under way does not end because nobody can hear of it."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            if self._stream is not None:
                self._stream.flush()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"stdout cannot be written: {error.strerror or error}") from error
