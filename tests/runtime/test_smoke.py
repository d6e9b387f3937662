"""A container is tried out step by step; each step is told, and one that fails is what it ends with."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from runtime import smoke


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["step"]: line for line in lines}


def test_what_works_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert smoke.main(["--output", str(tmp_path / "out"), "--resolve", "localhost"]) == 0
    steps = told(capsys)
    assert all(step["ok"] for step in steps.values()) and len(steps) == 4
    assert {"127.0.0.1", "::1"} & set(str(steps["resolve localhost"]["result"]).split(", "))
    written = json.loads((tmp_path / "out" / "smoke.json").read_text())
    assert [step["step"] for step in written["steps"]] == list(steps)[:3]


def test_each_failure_is_told_and_the_others_are_tried_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> object:
        raise ImportError(f"no {name}")

    monkeypatch.setattr("importlib.import_module", broken)
    monkeypatch.setattr(smoke, "RESOLVE_S", 0.0)
    (tmp_path / "file").write_text("")
    assert smoke.main(["--output", str(tmp_path / "file"), "--resolve", "no-such-host.invalid"]) == 3
    steps = told(capsys)
    assert [step["ok"] for step in steps.values()] == [False] * 4
    assert steps["import jax"]["result"] == "ImportError: no jax"


def test_a_name_may_be_known_a_while_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([socket.gaierror("Name or service not known"), [(0, 0, 0, "", ("10.0.0.7", 0))]])

    def lookup(*_: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert smoke.main(["--output", str(tmp_path), "--resolve", "pod-0.js"]) == 0
    assert told(capsys)["resolve pod-0.js"]["result"] == "10.0.0.7"
