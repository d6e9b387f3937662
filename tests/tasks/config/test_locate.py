"""Config files are found by path or by name, and a miss says what there is."""

from __future__ import annotations

import os
import re
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


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("x" * 252, "there is no target"),
        ("x" * 300, f"{'x' * 80}… cannot be looked for: File name too long"),
        ("a\0b", "there is no target"),
        ("~nobody-of-this-name/a.yaml", "cannot be looked for"),
        ("loop.yaml", "there is no target 'loop.yaml'"),
        ("pipe", "pipe is there, and no file"),
        ("/dev/null", "/dev/null is there, and no file"),
        ("", "the name of a file of configs/targets is empty"),
    ],
)
def test_what_is_no_file_is_refused_in_a_line(here: Path, word: str, told: str) -> None:
    (here / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(here / "pipe")
    with pytest.raises(BadInput, match=re.escape(told)) as refused:
        locate(word, "targets")
    assert "\n" not in str(refused.value)


def test_a_folder_is_no_config(here: Path) -> None:
    with pytest.raises(BadInput, match="is a folder"):
        locate("configs", "targets")
