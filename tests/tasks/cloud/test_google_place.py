"""Project and zone: who says which wins, and where it was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.google_place import Chosen, choose_project, choose_zone


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose gcloud names project and zone in a configuration called work."""
    folder = tmp_path / ".config" / "gcloud"
    (folder / "configurations").mkdir(parents=True)
    (folder / "active_config").write_text("work\n")
    (folder / "configurations" / "config_work").write_text(
        "[core]\nproject = of-gcloud\n[compute]\nzone = z1\n"
    )
    return {"HOME": str(tmp_path)}


def test_the_nearest_word_wins_and_is_named(environ: dict[str, str]) -> None:
    file = f"{environ['HOME']}/.config/gcloud/configurations/config_work"
    assert choose_project(None, environ) == Chosen("of-gcloud", file)
    assert choose_zone(environ) == Chosen("z1", file)
    environ["GOOGLE_CLOUD_PROJECT"] = "of-environment"
    assert choose_project(None, environ) == Chosen("of-environment", "GOOGLE_CLOUD_PROJECT")
    assert choose_project("flag", environ) == Chosen("flag", "as told")


def test_nobody_names_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Google Cloud project is named"):
        choose_project(None, {"HOME": str(tmp_path)})
    with pytest.raises(BadInput, match="no zone is named"):
        choose_zone({"HOME": str(tmp_path)})


def test_a_damaged_configuration_names_nothing(environ: dict[str, str]) -> None:
    Path(f"{environ['HOME']}/.config/gcloud/configurations/config_work").write_text("project = x\n")
    with pytest.raises(BadInput):
        choose_project(None, environ)
