"""A secret that user code gives away in every way it can is in nothing that a run writes or says."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet
import pytest

from tests.system.prefect_station import PATIENCE_S, ROOT
from tests.system.suites import lay_suite

SECRET = "Geheim/42+hunter"
FORMS = [SECRET.encode(), quote(SECRET, safe="").encode(), base64.b64encode(SECRET.encode())[:-4]]


def _written(home: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields every file of a state root but venvs; of Parquet also what is compressed within."""
    for file in home.rglob("*"):
        if not file.is_file() or (home / "venvs") in file.parents:
            continue
        yield file, file.read_bytes()
        if file.suffix == ".parquet":
            yield file, json.dumps(pyarrow.parquet.read_table(file).to_pydict()).encode()


@pytest.mark.system
def test_a_secret_that_user_code_gives_away_is_nowhere(home: Path, tmp_path: Path) -> None:
    suite = lay_suite(tmp_path / "suite", "leaky", fail=[False, True])
    variables = tmp_path / "secrets.env"
    variables.write_text(f"LEAKY_TOKEN={SECRET}\n")
    target = tmp_path / "target.yaml"
    target.write_text(f"kind: local\nworkers: 1\npython: {sys.executable}\n")  # no venv has to be built
    command = [sys.executable, "-m", "flows.cli.main", "run", str(suite), "--target", str(target)]
    done = subprocess.run(
        [*command, "--env-file", str(variables), "--run-id", "leaky", "--no-server", "--verbose", "--json"],
        cwd=ROOT,
        env=os.environ | {"SLICEBENCH_HOME": str(home)},
        capture_output=True,
        timeout=PATIENCE_S,
    )

    # It did all that is forbidden, and was heard.
    assert done.returncode == 1, done.stderr.decode()
    for heard in (
        b"told on stdout: (redacted)",
        b"told by logging: (redacted)",
        b"RuntimeError: (redacted) was",
    ):
        assert heard in done.stderr
    folder = home / "runs" / "leaky"
    samples = pyarrow.parquet.read_table(folder / "samples.parquet").to_pydict()
    assert "operation (redacted)" in samples["operation"]
    assert {"metric (redacted)", "leaky/(redacted)_count"} <= set(samples["metric"])
    assert {"run.log", "report.html", "outcome.json", "worker-0000.log"} <= {
        file.name for file in folder.rglob("*")
    }

    written = [("stdout", done.stdout), ("stderr", done.stderr), *_written(home)]
    assert any("prefect" in str(place) for place, _ in written)
    assert [str(place) for place, content in written for form in FORMS if form in content] == []
