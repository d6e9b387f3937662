"""Calls to the outside are told once each, with what they came to, and without what is secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from google.api_core.exceptions import NotFound

from runtime.contract.errors import InfrastructureError
from tasks.cloud.calls import LOGGER, calling
from tasks.cloud.command import clean_environment, run_command
from tasks.cloud.storage import open_folder
from tasks.cloud.tpu_errors import TpuError
from tasks.cloud.tpu_transport import told


@pytest.fixture(autouse=True)
def listening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)


def test_programs_are_told_with_their_code(caplog: pytest.LogCaptureFixture) -> None:
    run_command(
        ["sh", "-c", "exit 3", "https://me:hunter2@host.test/x"], env=clean_environment(), timeout_s=60
    )
    (line,) = caplog.messages
    told, seconds, unit = line.rsplit(" ", 2)
    assert told == "sh: -c 'exit 3' https://(redacted)@host.test/x: code 3,"
    assert (float(seconds) < 60, unit) == (True, "s")


def test_what_fails_is_told_by_its_error(caplog: pytest.LogCaptureFixture, gcs_bucket: str) -> None:
    with pytest.raises(InfrastructureError):
        open_folder(f"{gcs_bucket}-absent").write("a", b"x")
    assert caplog.messages[-1].startswith(f"gs: write {gcs_bucket}-absent/a: NotFound, ")


def test_objects_are_told_by_what_is_done_to_them(caplog: pytest.LogCaptureFixture, gcs_bucket: str) -> None:
    folder = open_folder(f"{gcs_bucket}/runs")
    folder.write("a", b"x")
    folder.read("a")
    assert list(folder.names()) == ["a"]
    folder.delete("a")
    told = [line.partition(": ok,")[0] for line in caplog.messages]
    assert told == [
        f"gs: {verb} {gcs_bucket}/runs{name}"
        for verb, name in (("write", "/a"), ("read", "/a"), ("list", ""), ("delete", "/a"))
    ]


def test_calls_to_cloud_tpu_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with told("list the nodes in z"):
        pass
    with pytest.raises(TpuError), told("delete n"):
        raise NotFound("no such node")  # type: ignore[no-untyped-call]
    assert [line.rpartition(", ")[0] for line in caplog.messages] == [
        "tpu: list the nodes in z: ok",
        "tpu: delete n: NotFound",
    ]


def test_long_calls_are_cut_and_escapes_taken_out(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with calling("ssh", "me@host \x1b[2J" + "x" * 1000):
        pass
    (line,) = caplog.messages
    assert "\x1b" not in line and len(line) < 400 and " …: ok" in line


def test_nothing_is_told_when_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with calling("ssh", "me@host true"):
        pass
    assert caplog.messages == []
