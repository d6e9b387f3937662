"""Stand-ins that can be started by hand say how."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.__main__ import stand_ins

MODULES = stand_ins()


def test_all_that_pages_start_are_there() -> None:
    assert {"store", "kms", "tpu", "container", "kubernetes", "sshd"} <= MODULES.keys()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_each_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(MODULES[name]).main(["--help"])
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out.startswith("usage: ")


def test_what_is_not_installed_is_told_at_once_with_what_installs_it(tmp_path: Path) -> None:
    """A cluster whose Kubernetes cannot start would be waited for."""
    lacking = "import runpy, sys; sys.modules['lightkube'] = None; runpy.run_module('tests.cloud', run_name='__main__')"
    words = [sys.executable, "-c", lacking, "container", "--state", str(tmp_path / "state"), "--kubernetes"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "lightkube" in ended.stderr and "make .venv/dev.stamp" in ended.stderr
    assert not (tmp_path / "state").exists()
