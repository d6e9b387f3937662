"""Env files are read as Docker reads them, and secrets are known by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.envfile import left_to_environ, looks_secret, resolve_env


def read(tmp_path: Path, content: str | bytes, environ: dict[str, str] | None = None) -> dict[str, str]:
    file = tmp_path / "env"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return resolve_env([], [str(file)], environ or {})[0]


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
        ("# note\n\n  # indented\nA=1", {"A": "1"}),
        ("A=1 # no comment\n", {"A": "1 # no comment"}),
        ("A=\"x\"\nB='y'\n", {"A": '"x"', "B": "'y'"}),
        ("A=a=b\nB=\n", {"A": "a=b", "B": ""}),
        ("A= x \n", {"A": " x "}),
        ("  A=1\n", {"A": "1"}),
        ("A=$HOME\nB=a\\nb\n", {"A": "$HOME", "B": "a\\nb"}),
        ("A=1\nA=2\n", {"A": "2"}),
        (b"\xef\xbb\xbfA=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("HERE\nABSENT\n", {"HERE": "from me"}),
        ("", {}),
    ],
)
def test_dockers_rules(tmp_path: Path, content: str | bytes, meant: dict[str, str]) -> None:
    assert read(tmp_path, content, {"HERE": "from me"}) == meant


def test_flags_win_over_files_and_later_files_over_earlier(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("A=1\nB=1\nC=1\n")
    two.write_text("B=2\nC=2\n")
    values, _ = resolve_env(["C=3", "D"], [str(one), str(two)], {"D": "4"})
    assert values == {"A": "1", "B": "2", "C": "3", "D": "4"}


def test_what_is_left_to_the_environment_is_known_before_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("A\nB\nC=1\n")
    assert left_to_environ(["B=2", "D"], [str(file)]) == ["A", "D"]
    with pytest.raises(BadInput, match="write NAME=value"):
        left_to_environ(["E F"], [])


def test_bad_lines_are_told_all_at_once_without_their_values(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("OK=1\nexport A=hush\n1B=hush\nC D=hush\n=hush\nSLICEBENCH_LEASE=hush\n")
    with pytest.raises(BadInput) as caught:
        resolve_env(["E F=hush"], [str(file), str(tmp_path / "absent")], {})
    told = str(caught.value)
    for line in range(2, 7):
        assert f"{file}:{line}: " in told
    assert "write A=…" in told and "absent" in told and "--env" in told
    assert "hush" not in told
    assert len(caught.value.problems) == 7


def test_a_path_for_python_that_no_worker_would_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match="env:2: PYTHONPATH has no effect, .*put your modules beside the suite"
    ):
        read(tmp_path, "A=1\nPYTHONPATH=/my/code\n")


def test_what_cannot_be_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="env:1: env file is not UTF-8 text"):
        read(tmp_path, b"A=\xff\n")
    with pytest.raises(BadInput, match="NUL"):
        read(tmp_path, b"A=\0\n")


def test_secrets_are_known_by_name_or_by_being_copied() -> None:
    values, secret = resolve_env(["A=1", "HF_TOKEN=x", "HERE"], [], {"HERE": "h"})
    assert set(values) == {"A", "HF_TOKEN", "HERE"} and secret == {"HF_TOKEN", "HERE"}
    for name in (
        "API_KEY",
        "api_key",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "GH_PWD",
        "GOOGLE_CREDENTIALS",
    ):
        assert looks_secret(name), name
    for name in ("XLA_FLAGS", "KEYBOARD", "MONKEY", "PWD", "TOKENIZERS_PARALLELISM", "JAX_PLATFORMS"):
        assert not looks_secret(name), name
