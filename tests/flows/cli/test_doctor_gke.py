"""`slicebench doctor --target` for a cluster of GKE by name: there, missing, half broken, or not to be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.main import main
from tests.cloud.container.hurried import pool_request
from tests.cloud.container.running import Gke

TARGET = """\
kind: gke
cluster: {{name: mine, project: proj, location: us-east5, create: {create}}}
type: v5litepod-16
image: registry/image@sha256:{digest}
"""


def doctor(capsys: pytest.CaptureFixture[str], tmp_path: Path, create: str = "if_missing") -> tuple[int, str]:
    file = tmp_path / "target.yaml"
    file.write_text(TARGET.format(create=create, digest="0" * 64))
    capsys.readouterr()
    code = main(["doctor", "--target", str(file)])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_what_the_api_says_of_the_cluster(
    gke: Gke, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, told = doctor(capsys, tmp_path)
    assert "the API answers for project proj (from the target file)" in told
    assert "there is no cluster mine: a run makes it, and gives it back" in told
    assert "the run may not make it" in doctor(capsys, tmp_path, "never")[1]
    gke.put("mine", pools=[pool_request("np-0")])
    assert "mine in us-east5 is RUNNING, version" in doctor(capsys, tmp_path)[1]
    gke.spoil("mine", "np-0")
    assert "node pool np-0 is ERROR: [GCE_STOCKOUT]" in doctor(capsys, tmp_path)[1]
    gke.set(denied=["ListClusters"])
    code, told = doctor(capsys, tmp_path)
    assert "roles/container.admin" in told
    assert code != 0
