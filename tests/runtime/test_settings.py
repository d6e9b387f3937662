"""Flags win over JAX's variables; what contradicts is refused with the fix."""

from __future__ import annotations

import pytest

from runtime.contract.errors import BadInput
from runtime.settings import parse

ALONE = ["suite.yaml", "--output", "/runs/r1"]


def test_alone_by_default() -> None:
    settings = parse(ALONE, {})
    assert (settings.membership.worker, settings.membership.workers) == (0, 1)
    assert (settings.run_id, settings.attempt, settings.first_point) == ("r1", 1, 0)
    assert settings.scratch is None and settings.platform is None


def test_points_are_numbers() -> None:
    assert parse([*ALONE, "--points", "0,3"], {}).points == {0, 3}
    assert parse(ALONE, {}).points is None
    with pytest.raises(BadInput, match="such as 0,3"):
        parse([*ALONE, "--points", "all"], {})


def test_jax_variables_are_honoured() -> None:
    settings = parse(
        ALONE,
        {
            "JAX_PROCESS_ID": "2",
            "JAX_NUM_PROCESSES": "4",
            "JAX_COORDINATOR_ADDRESS": "host",
            "JAX_COORDINATOR_PORT": "81",
        },
    )
    member = settings.membership
    assert (member.worker, member.workers, member.coordinator) == (2, 4, "host:81")


@pytest.mark.parametrize(
    ("address", "whole"), [("host:7", "host:7"), ("[::1]", "[::1]:81"), ("[::1]:7", "[::1]:7")]
)
def test_the_port_variable_does_not_change_a_whole_address(address: str, whole: str) -> None:
    environ = {"JAX_COORDINATOR_ADDRESS": address, "JAX_COORDINATOR_PORT": "81"}
    assert parse(ALONE, environ).membership.coordinator == whole


def test_flags_win() -> None:
    flags = ["--worker", "1", "--workers", "2", "--coordinator", "here:1"]
    settings = parse([*ALONE, *flags], {"JAX_PROCESS_ID": "0", "JAX_COORDINATOR_ADDRESS": "there:2"})
    assert (settings.membership.worker, settings.membership.coordinator) == (1, "here:1")


def test_output_may_be_a_bucket_or_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert parse(["s", "--output", "gs://bucket/runs/r7/"], {}).output == "gs://bucket/runs/r7"
    assert parse(["s", "--output", "runs/r7"], {}).output == "/runs/r7"


@pytest.mark.parametrize(
    ("flags", "environ", "reason"),
    [
        (["--workers", "2"], {}, "no coordinator"),
        (["--worker", "2", "--workers", "2", "--coordinator", "h:1"], {}, "none of 2"),
        ([], {"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES is 'two'"),
    ],
)
def test_contradictions_are_refused(flags: list[str], environ: dict[str, str], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse([*ALONE, *flags], environ)
