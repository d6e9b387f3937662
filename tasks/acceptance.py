"""An acceptance in Prefect: a task for each run, red where it did not pass; the report as artifacts."""

from __future__ import annotations

from collections.abc import Callable

from tasks.artifacts import code_block, escaped, key_of, post_markdown, post_table, where_lie
from tasks.config.acceptance_turns import Session
from tasks.nightly import as_task
from tasks.stages.acceptance_record import AcceptanceRecord
from tasks.stages.context import Say
from tasks.stages.files import REPORT_FILE
from tasks.stages.nightly_record import CellEnd


def play_turn(title: str, play: Callable[[], CellEnd]) -> CellEnd:
    """Makes a run, as a task."""
    return as_task(title, play)


def post_acceptance(record: AcceptanceRecord, session: Session, say: Say) -> None:
    """Leaves the acceptance in the UI; what is under these keys is its history there."""
    told = record.answer
    page = "\n\n".join(
        (
            f"## {escaped(f'{session.name}: {told}')}",
            "Report:",
            where_lie([f"{session.uri}/{REPORT_FILE}"]),
            code_block("\n".join(record.summary)),
        )
    )
    post_markdown(say, key_of("acceptance", record.acceptance), page, told)
    rows = [
        {"run": cell.title, "result": cell.status, "cause": cell.cause, "folder": cell.runs[0].folder}
        for cell in record.cells
    ]
    post_table(say, key_of("acceptance-runs", record.acceptance), rows, told)
