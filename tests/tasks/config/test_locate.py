"""Config files are found by path or by name, and a miss says what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.locate import locate


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "configs" / "targets").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_own_configs_win_over_the_shipped_ones(here: Path) -> None:
    own = here / "configs" / "targets" / "local.yaml"
    own.write_text("kind: local\n")
    assert locate("local", "targets") == own


def test_a_name_without_own_file_is_a_shipped_one(here: Path) -> None:
    assert locate("local", "targets").parts[-3:] == ("configs", "targets", "local.yaml")


def test_a_path_is_taken_as_it_is(here: Path) -> None:
    (here / "mine.yaml").write_text("kind: local\n")
    assert locate("mine.yaml", "targets") == here / "mine.yaml"


def test_a_miss_names_the_nearest(here: Path) -> None:
    with pytest.raises(BadInput, match="no target 'locl'.*did you mean local"):
        locate("locl", "targets")


def test_a_folder_is_no_config(here: Path) -> None:
    with pytest.raises(BadInput, match="is a folder"):
        locate("configs", "targets")
