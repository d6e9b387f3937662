"""The pipeline as a Prefect flow: one suite on one target, source to verdict; its form, tasks, hooks and states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from prefect import flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.logging import get_run_logger
from pydantic import BeforeValidator, PositiveFloat, PositiveInt

from flows.attempt import name_of_this_flow_run, request_of_this_run, run_id_of
from flows.lease import release_run
from flows.narration import Narrator
from flows.pipeline import Stages, play
from flows.prefect_log import drop_expected_tracebacks, logged_by, outlive_worker
from flows.states import IN_A_FLOW, state_of
from tasks.build import build
from tasks.collect import collect
from tasks.compare import compare
from tasks.config.request import KEEP_FOR, Keep, RunRequest, Stage, as_filled_in
from tasks.failure import post_failure
from tasks.provision import provision
from tasks.report import report
from tasks.run import come_back, run_workload
from tasks.teardown import teardown
from tasks.upload import upload

P = ParamSpec("P")
R = TypeVar("R")

# What may be left empty is text, not None: Prefect's form asks for the type of what has more than one. Who starts
# a run by the API may say null all the same.
_none_is_empty = BeforeValidator(lambda value: "" if value is None else value)
Text = Annotated[str, _none_is_empty]
StageOrEmpty = Annotated[Literal["", Stage], _none_is_empty]


STAGES = Stages(
    build=build,
    provision=provision,
    upload=upload,
    run_workload=run_workload,
    come_back=come_back,
    collect=collect,
    teardown=teardown,
    compare=compare,
    report=report,
    post_failure=post_failure,
)


def give_back(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook on crash and cancellation: gives back what a flow run that can no longer do so itself has made.

    Prefect passes the arguments by position in one place, by these names in another: the names may not change.
    After a kill -9 this runs in a fresh process that knows nothing but the flow run.
    """
    run_id = run_id_of(flow_run.id, flow_run.created, flow_run.parameters)
    release_run(run_id, flow_run.parameters.get("lease") or run_id, f"its flow run is {state.name}")


def _explained(function: Callable[P, R]) -> Callable[P, R]:
    """Gives the form the words that the command's --help says, which Prefect reads from the docstring."""
    lines = (f"    {name}: {field.description}" for name, field in RunRequest.model_fields.items())
    function.__doc__ = "\n".join((str(function.__doc__), "", "Args:", *lines))
    return function


@flow(
    name="benchmark",
    flow_run_name=name_of_this_flow_run,
    description="Build → provision → upload → run → collect → teardown → compare → report, of one suite.",
    retries=0,
    persist_result=False,
    on_crashed=[give_back],
    on_cancellation=[give_back],
)
@_explained
def benchmark(
    suite: str,
    target: str = "local",
    output: Text = "",
    history: Text = "",
    night: Text = "",
    track: Text = "",
    run_id: Text = "",
    resume: bool = False,
    from_stage: StageOrEmpty = "",
    set: list[str] = [],  # noqa: B006
    env: list[str] = [],  # noqa: B006
    env_file: list[str] = [],  # noqa: B006
    repo: Text = "",
    branch: Text = "",
    pr: PositiveInt | None = None,
    commit: Text = "",
    jax_version: str = "locked",
    jax_index: Text = "",
    keep: Keep = "never",
    keep_for: str = KEEP_FOR,
    lease: Text = "",
    wait_for_lock: str = "0s",
    workers: PositiveInt | None = None,
    devices_per_worker: PositiveInt | None = None,
    operation_deadline_s: PositiveFloat | None = None,
    run_deadline_s: PositiveFloat | None = None,
    stop_after_checkpoints: PositiveInt | None = None,
    local_directory: Text = "",
    skip_preflight: bool = False,
    debug_dumps: bool = False,
    verbose: bool = False,
) -> State[Any]:
    """Runs one suite on one target and gives everything back."""
    request = request_of_this_run(as_filled_in(locals()))
    drop_expected_tracebacks()
    outlive_worker()
    say = Narrator(logged_by(get_run_logger()))
    return state_of(play(request, say, STAGES, IN_A_FLOW))
