"""Stand-ins that can be started by hand say how."""

from __future__ import annotations

import importlib

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
