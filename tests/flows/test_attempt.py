"""What a flow run calls its run, and what its retries still have to do."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from flows.attempt import run_id_of, this_attempt
from tasks.config.request import RunRequest

FLOW_RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
CREATED = datetime(2026, 11, 27, 23, 5, 9, tzinfo=UTC)


def test_a_run_is_named_by_suite_time_and_flow_run() -> None:
    assert run_id_of(FLOW_RUN, CREATED, {"suite": "quickstart"}) == "quickstart-20261127-230509-099a8057"


def test_the_name_that_was_asked_for_wins() -> None:
    assert run_id_of(FLOW_RUN, CREATED, {"suite": "quickstart", "run_id": "mine"}) == "mine"


@pytest.mark.parametrize(
    "suite", ["/a/B c/Übermäßig Long_name.of-a.suite-that-goes-on-and-on-and-on.yaml", "___.yml", "x"]
)
def test_any_suite_gives_a_name_that_prepare_accepts(suite: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", run_id_of(FLOW_RUN, CREATED, {"suite": suite}))


def test_a_first_attempt_is_what_was_asked_for() -> None:
    request = RunRequest(suite="s", from_stage=None)
    assert this_attempt(request, "r", run_count=1) == request.model_copy(update={"run_id": "r"})


def test_a_retry_goes_on_with_the_folder_of_the_first_attempt(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "request.json").write_text("{}")
    assert this_attempt(RunRequest(suite="s", output=str(tmp_path)), "r", run_count=2).resume


def test_a_retry_after_bad_input_starts_from_the_beginning(tmp_path: Path) -> None:
    assert not this_attempt(RunRequest(suite="s", output=str(tmp_path)), "r", run_count=2).resume


def test_a_retry_does_not_throw_away_what_the_first_attempt_of_a_resumed_run_did(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "request.json").write_text("{}")
    request = RunRequest(suite="s", output=str(tmp_path), resume=True, from_stage="run")
    assert this_attempt(request, "r", run_count=1).from_stage == "run"
    retried = this_attempt(request, "r", run_count=2)
    assert retried.resume
    assert retried.from_stage is None
