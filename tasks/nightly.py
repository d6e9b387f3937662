"""A night in Prefect: a task for each cell, red where it did not run; the report as artifacts; alerts as events."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.runtime import flow_run

from runtime.contract.errors import InfrastructureError
from tasks.artifacts import code_block, escaped, key_of, post_markdown, post_table, where_lie
from tasks.config.nightly_cells import Night
from tasks.history.alerts import Event
from tasks.stages import nightly_cell
from tasks.stages.context import Say
from tasks.stages.files import REPORT_FILE
from tasks.stages.nightly_alerts import Channel
from tasks.stages.nightly_cell import Work
from tasks.stages.nightly_plan import Planned
from tasks.stages.nightly_record import CellEnd, NightRecord
from tasks.stages.nightly_report import answer, summary_lines, verdict_of


class CellTrouble(InfrastructureError):
    """A cell failed or did not run; `end` is all that is known."""

    def __init__(self, end: CellEnd) -> None:
        super().__init__(f"{end.status.replace('_', ' ')}: {end.cause}")
        self.end = end


def _run_name() -> str:
    from prefect.runtime import task_run

    attempt = int(flow_run.run_count or 1)
    return str(task_run.parameters["title"]) + (f" (attempt {attempt})" if attempt > 1 else "")


@task(name="cell", task_run_name=_run_name, cache_policy=NO_CACHE, persist_result=False, retries=0)
def _cell(title: str, play: Callable[[], CellEnd]) -> CellEnd:
    """Plays a cell. Raises CellTrouble where it did not pass, so that its task is red."""
    end = play()
    if end.status != "passed":
        raise CellTrouble(end)
    return end


def play_cell(work: Work, planned: Planned) -> CellEnd:
    """Makes the runs of a cell, as a task."""
    return as_task(planned.cell.title, lambda: nightly_cell.play_cell(work, planned))


def play_again(work: Work, planned: Planned, first: CellEnd, keys: Collection[str]) -> CellEnd:
    """Makes a cell's run once more, as a task."""
    play = lambda: nightly_cell.play_again(work, planned, first, keys)  # noqa: E731
    return as_task(f"{planned.cell.title}, again", play)


def as_task(title: str, play: Callable[[], CellEnd]) -> CellEnd:
    """Plays a cell as a task; returns how it ended."""
    try:
        return _cell(title, play)
    except CellTrouble as trouble:
        return trouble.end


def post_night(record: NightRecord, night: Night, say: Say) -> None:
    """Leaves the night in the UI; what is under these keys is its history there."""
    told = f"{verdict_of(record)}: {answer(record)}"
    page = "\n\n".join(
        (
            f"## {escaped(f'{record.nightly} {record.night}: {told}')}",
            "Report:",
            where_lie([f"{night.uri}/{REPORT_FILE}"]),
            code_block("\n".join(summary_lines(record))),
        )
    )
    post_markdown(say, key_of("nightly", record.nightly), page, told)
    rows = [
        {
            "cell": cell.title,
            "result": cell.status,
            "cause": cell.cause,
            "ran on": cell.at,
            "chip-hours": cell.cost.chip_hours,
            "US dollars": cell.cost.dollars,
        }
        for cell in record.cells
    ]
    post_table(say, key_of("nightly-cells", record.nightly), rows, told)


def _emit(event: Event) -> None:
    """Tells Prefect of an alert: automations that wait for `slicebench.alert.opened` or `.closed` can act on it."""
    emit_event(
        event=f"slicebench.alert.{event.kind}",
        resource={
            "prefect.resource.id": f"slicebench.alert.{event.id.rpartition('-')[0]}",
            "prefect.resource.name": event.title,
            "slicebench.nightly": event.nightly,
            "slicebench.what": event.what,
        },
        payload={**event.message(), "sentence": event.sentence()},
        id=uuid.uuid5(uuid.NAMESPACE_URL, f"slicebench:{event.nightly}:{event.id}"),
    )


EVENTS = Channel("events of Prefect", _emit)
