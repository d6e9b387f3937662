"""A night as a Prefect flow: a task for each cell, a report under one key night after night, alerts as events."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger

from flows.benchmark import Text
from flows.nights import hands
from flows.prefect_log import drop_expected_tracebacks, logged_by, outlive_worker
from flows.states import began, recorded_state, refused_state
from runtime.contract.errors import SlicebenchError
from tasks.config.nightly_cells import Night
from tasks.config.run_names import suite_stem
from tasks.nightly import EVENTS, play_again, play_cell, post_night
from tasks.stages.nightly import open_night, play_night
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_report import answer


def _name() -> str:
    from prefect.runtime import flow_run

    return f"{suite_stem(str(flow_run.parameters['file']))} {flow_run.parameters.get('night') or ''}".strip()


@flow(
    name="nightly",
    flow_run_name=_name,
    description="Suites × targets × versions in one night → history → verdicts → report → alerts.",
    retries=0,
    persist_result=False,
)
def nightly(file: str = "default", night: Text = "") -> State[Any]:
    """Runs every cell of a nightly, judges it, and reports. A retry goes on with what is missing.

    Args:
        file: Nightly to run: a path, or a name in configs/nightly/
        night: Its date, e.g. 2026-11-30; empty: today, in the nightly's time zone
    """
    drop_expected_tracebacks()
    outlive_worker()
    say = logged_by(get_run_logger())
    try:
        opened = open_night(file, night or None, began())
        record = play_night(opened, hands(direct=False), say, _steps(opened))
    except SlicebenchError as error:
        say(str(error))
        return refused_state(error)
    post_night(record, opened, say)
    return recorded_state(record.exit_code, answer(record))


def _steps(opened: Night) -> Steps:
    events = [EVENTS] if opened.config.alerts.events else []
    return Steps(cell=play_cell, again=play_again, channels=events)
