"""The commands that look back find runs in a bucket as they do in a folder."""

from __future__ import annotations

import json

import pytest

from flows.cli.main import main
from tests.cloud.fake_gcs import gcs_bucket, gcs_url
from tests.flows.cli.past import leave_run_at

__all__ = ["gcs_bucket", "gcs_url"]


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
