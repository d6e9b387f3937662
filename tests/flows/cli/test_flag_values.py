"""Whatever is given to a flag of `workload create` or `cluster create`, what is wrong is told of it as it is typed."""

from __future__ import annotations

from argparse import Action
from dataclasses import fields
from typing import NoReturn

import pytest

from flows.cli import cluster
from flows.cli.cluster_groups import GROUPS
from flows.cli.main import main
from flows.cli.workload_flags import parser
from runtime.contract.errors import ExitCode, InfrastructureError
from tests.tasks.config.test_values import FOREIGN

IMAGE = f"x@sha256:{64 * '0'}"
BASE = {"--context": "c", "--type": "cpu", "--docker-image": IMAGE, "--command": "true"}
TYPED = ("", "a b", "-1", "10" * 20, "\u00e9/", "[1]")


def options() -> list[Action]:
    return [one for one in parser(80)._actions if one.option_strings and one.nargs is None]


@pytest.mark.parametrize("action", options(), ids=lambda one: one.option_strings[0])
def test_a_wrong_value_of_a_workload_is_told_of_its_flag(
    action: Action, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLICEBENCH_REPOSITORY", raising=False)
    for flag in action.option_strings[:2]:
        for value in TYPED:
            words = [
                f"{name}={given}"
                for name, given in {**BASE, flag: value}.items()
                if name != action.option_strings[0] or name == flag
            ]
            code = main(["workload", "create", "n", *words, "--dry-run"])
            said = capsys.readouterr().err
            assert code in (ExitCode.DONE, ExitCode.BAD_INPUT), said
            assert not FOREIGN.search(said), said
            assert "_" not in said.replace(value, "").partition(": ")[0], said


VALUED = [one.name for group in GROUPS for one in fields(group) if "bool" not in str(one.type)]
WITH_VALUE = sorted(f"--{name.replace('_', '-')}" for name in ("ttl", *VALUED))


@pytest.mark.parametrize("flag", WITH_VALUE)
def test_a_wrong_value_of_a_cluster_is_told_of_its_flag(
    flag: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(project: str | None) -> NoReturn:
        raise InfrastructureError("nothing is wrong with it")

    monkeypatch.setattr(cluster, "office", taken)
    refused = 0
    for value in ("a b", "-1"):  # the parser of this command takes a while
        given = {"--zone": "us-east5-b", "--type": "v5litepod-16", flag: value}
        words = [f"{name}={text}" for name, text in given.items()]
        code = main(["cluster", "create", "c2", *words, "--dry-run"])
        said = capsys.readouterr().err
        refused += code == ExitCode.BAD_INPUT
        assert code in (ExitCode.INFRASTRUCTURE, ExitCode.BAD_INPUT), said
        assert not FOREIGN.search(said), said
        assert (
            code == ExitCode.INFRASTRUCTURE
            or "--" in said
            or flag[2:] in said
            or "no accelerator type" in said
        )
    assert refused
