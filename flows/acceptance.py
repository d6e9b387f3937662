"""An acceptance as a Prefect flow: a task for each run, and what they come to as artifacts under one key."""

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
from tasks.acceptance import play_turn, post_acceptance
from tasks.config.run_names import suite_stem
from tasks.stages.acceptance import open_acceptance, play_acceptance


def _name() -> str:
    from prefect.runtime import flow_run

    return f"{suite_stem(str(flow_run.parameters['file']))} {flow_run.parameters.get('id') or ''}".strip()


@flow(
    name="acceptance",
    flow_run_name=_name,
    description="Train → stop → start again, for each variant, with and without a sidecar → what it proves and costs.",
    retries=0,
    persist_result=False,
)
def acceptance(file: str = "encrypted-checkpoints", id: Text = "") -> State[Any]:
    """Plays an acceptance. A retry goes on with what is missing.

    Args:
        file: Acceptance to play: a path, or a name in configs/acceptance/
        id: Name of this passage; empty: the newest that has not come to its end, else a new one
    """
    drop_expected_tracebacks()
    outlive_worker()
    say = logged_by(get_run_logger())
    try:
        session = open_acceptance(file, id or None, began())
        record = play_acceptance(session, hands(direct=False), say, play_turn)
    except SlicebenchError as error:
        say(str(error))
        return refused_state(error)
    post_acceptance(record, session, say)
    return recorded_state(record.exit_code, record.answer)
