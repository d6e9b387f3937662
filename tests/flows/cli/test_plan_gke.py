"""`slicebench plan` on the shipped targets of kind gke: names, chips, price and warnings, and nothing made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks.config.locate import locate

SUITE = """\
suite_name: Slices
mesh_config: {{mesh_axes: [data], ici_parallelism: {{data: {ici}}}, dcn_parallelism: {{data: {dcn}}}}}
checkpoint_config: {{spec: {{array: {{dtype: float32, shape: [64], sharding: [data]}}}}}}
benchmarks:
  - {{generator: runtime.benchmarks.array_handler.ArrayHandler, options: {{}}}}
"""


@pytest.mark.parametrize(
    ("target", "ici", "dcn", "made", "price"),
    [
        ("gke-v5e-16x2", 16, 2, ["gke_cluster", "gke_node_pool", "gke_node_pool", "jobset", "jobset"], 15.36),
        ("gke-context", 4, 1, ["jobset", "jobset"], 0),
        ("gke-h100x2", 16, 1, ["jobset", "jobset"], 0),
        ("gke-pathways", 16, 2, ["jobset", "jobset"], 0),
    ],
)
def test_shipped_targets_are_planned(
    target: str,
    ici: int,
    dcn: int,
    made: list[str],
    price: float,
    tmp_path: Path,
    gcs_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLICEBENCH_PROJECT", "mine")
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(ici=ici, dcn=dcn))
    words = [
        str(suite),
        "--target",
        target,
        "--output",
        f"{gcs_bucket}/runs",
        "--run-id",
        "r1",
        "--skip-preflight",
    ]
    assert main(["plan", *words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["resources"]] == made
    assert told["capacity"] == ("spot" if "gke_cluster" in made else "")
    assert told["price_per_hour"] == pytest.approx(price)
    assert main(["plan", *words]) == 0
    lines = capsys.readouterr()
    assert f"jobset {told['resources'][-1]['name']}" in lines.out
    assert "a new image (target" in lines.out and "names no image: write image: or build:" in lines.out


def test_what_is_left_to_itself_is_planned_with_its_time(
    tmp_path: Path, gcs_bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, target = tmp_path / "suite.yaml", tmp_path / "there.yaml"
    suite.write_text(SUITE.format(ici=4, dcn=1))
    target.write_text(f"{locate('gke-context', 'targets').read_text()}\nwait: false\n")
    words = [str(suite), "--target", str(target), "--output", f"{gcs_bucket}/runs", "--skip-preflight"]
    assert main(["plan", *words]) == 0
    told = capsys.readouterr()
    assert "left:     to itself once it is started, for 1.18 h at most" in told.out
    assert "until somebody comes back with --resume, for 1.18 h at most" in told.err


def test_what_runs_in_pods_cannot_write_to_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(ici=4, dcn=1))
    assert main(["plan", str(suite), "--target", "gke-context", "--output", str(tmp_path)]) == 2
    assert "would be in pods, and go with them, give --output gs://BUCKET/FOLDER" in capsys.readouterr().err
