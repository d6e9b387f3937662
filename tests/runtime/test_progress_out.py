"""Records reach whoever listens, and a listener that went away stops nothing."""

from __future__ import annotations

import os

import pytest

from runtime.contract.progress import PROGRESS_FD_VARIABLE, Done, Init, parse
from runtime.progress_out import ProgressWriter


def test_records_arrive_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setenv(PROGRESS_FD_VARIABLE, str(writer))
    progress = ProgressWriter.from_environment()
    progress.tell(Init("begin"))
    progress.tell(Done(3, 1))
    os.close(writer)
    with os.fdopen(reader) as lines:
        assert [parse(line) for line in lines] == [Init("begin"), Done(3, 1)]


def test_nobody_listening_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS_FD_VARIABLE, raising=False)
    ProgressWriter.from_environment().tell(Init("begin"))


def test_a_listener_that_went_away_is_fine() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    progress = ProgressWriter(writer)
    progress.tell(Init("begin"))
    progress.tell(Init("begin"))
    os.close(writer)
