"""Which run a Prefect flow run is: its name, the same on every retry, and what a retry still has to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tasks.cloud.storage import is_there, open_folder
from tasks.config.home import runs_folder
from tasks.config.request import RunRequest
from tasks.config.run_names import run_id_for, suite_stem
from tasks.stages.files import REQUEST_FILE


def run_id_of(flow_run_id: UUID, created: datetime | None, parameters: Mapping[str, Any]) -> str:
    """Returns the run id of a flow run: the one asked for, else made of suite, time of creation and flow run.

    Flow, hooks and retries must come to the same answer, so nothing here may depend on when it is called.
    """
    if asked := parameters.get("run_id"):
        return str(asked)
    when = created or datetime.fromtimestamp(0, UTC)
    return run_id_for(str(parameters["suite"]), when, flow_run_id.hex[-8:])


def name_of(suite: str, target: str) -> str:
    """Returns what a flow run is called in the UI: what runs where, without folders."""
    return f"{suite_stem(suite)} on {suite_stem(target)}"


def name_of_this_flow_run() -> str:
    """Does so for the flow run that is about to begin."""
    from prefect.runtime import flow_run

    return name_of(str(flow_run.parameters["suite"]), str(flow_run.parameters["target"]))


def run_uri(run_id: str, output: str | None) -> str:
    """Returns where the run's folder lies."""
    return f"{(output or str(runs_folder())).rstrip('/')}/{run_id}"


def request_of_this_run(request: RunRequest) -> RunRequest:
    """Returns what the flow run that this is called in has to do: named, and on a retry only the rest."""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("this is not called within a flow run")
    flow_run = context.flow_run
    return this_attempt(
        request, run_id_of(flow_run.id, flow_run.created, request.model_dump()), flow_run.run_count
    )


def this_attempt(request: RunRequest, run_id: str, run_count: int) -> RunRequest:
    """Returns what this attempt of a flow run has to do: a retry goes on with the folder that the first one opened."""
    request = request.model_copy(update={"run_id": run_id})
    if run_count <= 1 or (request.resume and request.from_stage is None):
        return request
    opened = is_there(open_folder(run_uri(run_id, request.output)), REQUEST_FILE)
    # `from_stage` was obeyed by the first attempt; obeying it again would throw away what that one finished.
    return request.model_copy(update={"resume": opened, "from_stage": None})
