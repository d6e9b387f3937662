"""The image that a target names: looked for before a run makes anything, and by doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.stages.named_image import look_at_image
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store
from tests.flows.cli.test_plan_gke import SUITE
from tests.tasks.cloud.test_registry import push_image

TARGET = "kind: gke\ncontext: nowhere\ntype: cpu\nimage: {}\n"


def test_a_run_of_an_image_that_is_not_there_makes_nothing(
    tmp_path: Path, gcs_bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, target = tmp_path / "suite.yaml", tmp_path / "target.yaml"
    suite.write_text(SUITE.format(ici=1, dcn=1))
    store = Store()
    push_image(store, "worker", "v1")
    with serve_registry(store) as address:
        target.write_text(TARGET.format(f"{address}/worker:v2"))
        assert main(["run", str(suite), "--target", str(target), "--output", f"{gcs_bucket}/runs"]) == 2
    told = capsys.readouterr().err
    assert "there is no image" in told and "v1" in told
    assert "Prefect" not in told and "run folder" not in told


def test_doctor_looks_at_the_image_that_a_target_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target.yaml"
    with serve_registry(Store()) as address:
        target.write_text(TARGET.format(f"{address}/worker:v2"))
        assert main(["doctor", "--target", str(target)]) != 0
    assert "there is no image" in "".join(capsys.readouterr())


def test_what_the_registry_says() -> None:
    store = Store()
    digest = push_image(store, "worker", "v1")
    none = f"sha256:{'0' * 64}"
    with serve_registry(store) as address:
        found = {
            image: look_at_image(f"{address}/{image}")[0].status
            for image in ("worker:v1", "worker:v2", f"worker@{digest}", f"worker@{none}")
        }
    assert list(found.values()) == ["fine", "wrong", "fine", "warning"]
    assert look_at_image(f"{address}/worker:v1")[0].status == "unknown"
    assert look_at_image("a b")[0].status == "wrong"
