"""What goes to a bucket while a sidecar sees it is left here, and brought there by who has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.sidecar import RECORDS_VARIABLE
from runtime.output import placing, publish, publish_records


def test_records_go_around_the_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, output = tmp_path / "scratch", "gs://nowhere-at-all/run"
    monkeypatch.setenv(RECORDS_VARIABLE, str(scratch / "records"))
    with placing(output, "results/manifest.json", scratch) as path:
        path.write_text("numbers")
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "a.pb").write_text("trace")
    publish(tmp_path / "trace", output, "traces/x")
    with placing(str(tmp_path / "here"), "results/manifest.json", scratch) as path:
        path.write_text("a folder is nobody's to see")
    assert (tmp_path / "here/results/manifest.json").exists()
    left = {path.relative_to(scratch / "records").as_posix() for path in (scratch / "records").rglob("*.*")}
    assert left == {"results/manifest.json", "traces/x/a.pb"}

    monkeypatch.delenv(RECORDS_VARIABLE)
    publish_records(scratch, str(tmp_path / "bucket"))
    assert (tmp_path / "bucket/results/manifest.json").read_text() == "numbers"
    assert (tmp_path / "bucket/traces/x/a.pb").read_text() == "trace"
