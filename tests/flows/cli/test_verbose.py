"""--verbose shows the calls that a command makes, and only with the flag."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flows.cli.main import main
from flows.cli.verbose import show_calls
from tasks.cloud.calls import calling


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository without a branch of the name that is asked for."""
    folder = tmp_path / "orbax"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def test_plan_shows_what_it_asks_git(tmp_path: Path, repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "quickstart", "--output", str(tmp_path / "o"), "--repo", str(repo), "--branch", "nosuch"]
    assert main([*words, "--verbose"]) == 2
    said = capsys.readouterr().err
    assert "\ncall git: " in f"\n{said}" and f"ls-remote --quiet -- file://{repo}" in said
    assert ": code 0, " in said
    assert main(words) == 2
    assert "call git" not in capsys.readouterr().err


def test_reap_shows_what_it_asks_the_ledger(
    gcs_bucket: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_LEDGER", f"{gcs_bucket}/ledger")
    assert main(["reap", "--dry-run", "--verbose"]) == 0
    assert f"call gs: list {gcs_bucket}/ledger" in capsys.readouterr().err


def test_values_of_secret_variables_are_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter22")
    show_calls(True)
    with calling("ssh", "me@host echo hunter22"):
        pass
    show_calls(False)
    with calling("ssh", "me@host again"):
        pass
    assert capsys.readouterr().err.startswith("call ssh: me@host echo (redacted): ok, ")
