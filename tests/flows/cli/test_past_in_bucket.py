"""The commands that look back find runs in a bucket as they do in a folder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.cloud import storage as google_storage

from flows.cli.main import main
from tasks.cloud.storage import open_folder
from tests.flows.cli.past import leave_run_at


def test_runs_report_and_logs_read_a_bucket(gcs_bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = f"{gcs_bucket}/runs"
    leave_run_at(output, "first", 1000.0)
    leave_run_at(output, "second", 2000.0, ended=False)

    assert main(["runs", "--output", output, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"] == output
    assert [(run["run_id"], run["verdict"]) for run in told["runs"]] == [
        ("first", "NO_BASELINE"),
        ("second", None),
    ]

    assert main(["report", "first", "--output", output, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["report"], told["verdict"]) == (f"{output}/first/report.html", "NO_BASELINE")
    assert len(told["points"]) == 1

    assert main(["logs", "first", "--worker", "1", "--output", output]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "[1] hello from 1"

    assert main(["logs", "nosuch", "--output", output]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_of_the_samples_only_the_end_is_read_to_know_whether_they_are_whole(
    gcs_bucket: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = f"{gcs_bucket}/runs"
    leave_run_at(output, "cut", 1000.0)
    leave_run_at(output, "whole", 2000.0)
    cut = open_folder(output).child("cut")
    cut.write("samples.parquet", (cut.read("samples.parquet") or b"")[:-1])
    read: dict[str, int] = {}
    original = google_storage.Blob.download_as_bytes

    def download(blob: google_storage.Blob, **how: Any) -> bytes:
        content: bytes = original(blob, **how)
        read[blob.name] = len(content)
        return content

    monkeypatch.setattr(google_storage.Blob, "download_as_bytes", download)
    assert main(["runs", "--output", output, "--json"]) == 0
    states = {run["run_id"]: run["state"] for run in json.loads(capsys.readouterr().out)["runs"]}
    assert states["whole"] == "done" and "samples.parquet is cut short" in states["cut"]
    assert {read[f"runs/{run}/samples.parquet"] for run in states} == {9}
