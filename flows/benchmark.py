"""The pipeline: one suite on one target, from source to verdict. What a person, a schedule or the command
starts.
"""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.logging import get_run_logger
from pydantic import Field

from flows.attempt import request_of_this_run, run_id_of
from flows.ending import Ending, failed
from flows.lease import hold, release_run
from flows.narration import Narrator, drop_expected_tracebacks
from flows.patience import undisturbed
from flows.preload import preload
from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.build import build
from tasks.collect import collect
from tasks.compare import compare
from tasks.config.request import Keep, RunRequest, Stage
from tasks.failure import post_failure
from tasks.provision import provision
from tasks.report import report
from tasks.run import run_workload
from tasks.stages.prepare import prepare
from tasks.teardown import teardown
from tasks.upload import upload


def measure(request: RunRequest, say: Narrator) -> Ending:
    """The stages, in order. Whatever happens, teardown comes last, and how it ended is written down."""
    run = prepare(request, say)
    say.write_to(run.folder)
    ending = Ending(run)
    with hold(run) as lease:
        try:
            image = build(run)
            if run.marker("run") is None:
                workers = provision(run, lease)
                uploaded = upload(run, workers, image)
                ending.outcome = run_workload(run, uploaded, lease)
            ending.results = collect(run)
            ending.verdicts = compare(run)
            ending.report = report(run)
        except BaseException as error:
            ending.error = error
            if not isinstance(error, SlicebenchError):
                raise
        finally:
            with undisturbed(say), ending.written_down():
                teardown(run, lease)
    return ending


def give_back(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook on crash and cancellation: gives back what a flow run that can no longer do so itself has made.

    Prefect passes the arguments by position in one place and by these names in another, so the names may not
    change.
    After a kill -9 this runs in a fresh process that knows nothing but the flow run.
    """
    release_run(
        run_id_of(flow_run.id, flow_run.created, flow_run.parameters), f"its flow run is {state.name}"
    )


def _about(name: str) -> Any:
    """Returns what the form says below a field: the same words as the command's --help."""
    return Field(description=RunRequest.model_fields[name].description)


@flow(
    name="benchmark",
    flow_run_name="{suite} on {target}",
    description="Build → provision → upload → run → collect → compare → report → teardown, of one suite.",
    retries=0,
    persist_result=False,
    on_crashed=[give_back],
    on_cancellation=[give_back],
)
def benchmark(
    suite: Annotated[str, _about("suite")],
    target: Annotated[str, _about("target")] = "local",
    output: Annotated[str | None, _about("output")] = None,
    run_id: Annotated[str | None, _about("run_id")] = None,
    resume: Annotated[bool, _about("resume")] = False,
    from_stage: Annotated[Stage | None, _about("from_stage")] = None,
    set: Annotated[list[str], _about("set")] = [],  # noqa: B006
    env: Annotated[list[str], _about("env")] = [],  # noqa: B006
    env_file: Annotated[list[str], _about("env_file")] = [],  # noqa: B006
    repo: Annotated[str | None, _about("repo")] = None,
    branch: Annotated[str | None, _about("branch")] = None,
    pr: Annotated[int | None, _about("pr")] = None,
    commit: Annotated[str | None, _about("commit")] = None,
    jax_version: Annotated[str, _about("jax_version")] = "locked",
    jax_index: Annotated[str | None, _about("jax_index")] = None,
    keep: Annotated[Keep, _about("keep")] = "never",
    workers: Annotated[int | None, _about("workers")] = None,
    devices_per_worker: Annotated[int | None, _about("devices_per_worker")] = None,
    operation_deadline_s: Annotated[float | None, _about("operation_deadline_s")] = None,
    run_deadline_s: Annotated[float | None, _about("run_deadline_s")] = None,
    debug_dumps: Annotated[bool, _about("debug_dumps")] = False,
) -> State[Any]:
    """Runs one suite on one target and gives everything back."""
    request = request_of_this_run(RunRequest(**locals()))
    drop_expected_tracebacks()
    say = Narrator(get_run_logger())
    preload()
    try:
        ending = measure(request, say)
        if ending.code is not ExitCode.DONE:
            post_failure(ending.run, ending.causes)
        return ending.state()
    except SlicebenchError as error:
        return failed(error, say)
    finally:
        say.close()
