"""A night as a Prefect flow: a task for each cell, a report under one key night after night, alerts as events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.benchmark import Text
from flows.nights import hands
from flows.prefect_log import drop_expected_tracebacks, logged_by, outlive_worker
from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.config.nightly_cells import Night
from tasks.config.run_names import suite_stem
from tasks.nightly import EVENTS, play_again, play_cell, post_night
from tasks.stages.nightly import open_night, play_night
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import NightRecord
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
        return Failed(message=f"{error.exit_code.name}: {str(error).splitlines()[0]}")
    post_night(record, opened, say)
    return _state_of(record)


def _steps(opened: Night) -> Steps:
    events = [EVENTS] if opened.config.alerts.events else []
    return Steps(cell=play_cell, again=play_again, channels=events)


def began(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> datetime:
    """Returns when the flow run's first attempt began: a retry after midnight is of the same night."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context is not None else None
    return (flow_run.start_time if flow_run is not None else None) or now()


def _state_of(record: NightRecord) -> State[Any]:
    code = ExitCode(record.exit_code or 0)
    if code is ExitCode.DONE:
        return Completed(message=answer(record))
    return Failed(message=f"{code.name}: {answer(record)}")
