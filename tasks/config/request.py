"""RunRequest: the flat form that people fill in, as command flags, Prefect parameters or keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runtime.contract.names import STAGES
from tasks.config import duration, patterns
from tasks.config.findings import checked

KEEP_FOR = "4h"

Keep = Literal["never", "on_failure", "always"]
Stage = Literal["build", "provision", "upload", "run", "collect", "teardown"]
assert STAGES == ("build", "provision", "upload", "run", "collect", "teardown")


class RunRequest(BaseModel):
    """What somebody asks for. Every field has a default but the suite; nothing here is resolved or checked yet."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str = Field(description="Suite to run: a path, or a name in configs/suites/")
    target: str = Field("local", description="Where to run: a name in configs/targets/, or a path")
    output: str | None = Field(
        None, description="Folder for runs: a path or gs://…; default: $SLICEBENCH_HOME/runs"
    )
    history: str | None = Field(
        None,
        description="History to add its numbers to: a path or gs://…; default: $SLICEBENCH_HISTORY, or none",
    )
    night: str | None = Field(
        None, description="Night of the history that it is a run of, e.g. 2026-11-28; default: one of its own"
    )
    track: str | None = Field(
        None,
        description="Name for the versions measured, in the history; default: made from the source fields",
    )
    run_id: str | None = Field(None, description="Name of the run; default: made from suite and time")
    resume: bool = Field(False, description="Go on with the run of that run_id: only what is missing is done")
    from_stage: Stage | None = Field(None, description="With resume: do this stage and those after it again")
    set: list[str] = Field(
        default_factory=list, description="Overrides of the suite, KEY=VALUE, e.g. num_repeats=5"
    )
    env: list[str] = Field(default_factory=list, description="Environment of the workers, KEY=VALUE or KEY")
    env_file: list[str] = Field(default_factory=list, description="Files of such lines, by Docker's rules")
    repo: str | None = Field(None, description="Orbax to measure: repository URL (a fork, say) or local path")
    branch: str | None = Field(None, description="… at this branch")
    pr: int | None = Field(None, description="… at this pull request", gt=0)
    commit: str | None = Field(None, description="… at this commit")
    jax_version: str = Field("locked", description="locked, newest, nightly or x.y.z")
    jax_index: str | None = Field(None, description="Package index of JAX nightlies")
    keep: Keep = Field("never", description="Keep the hardware after the run; it goes on costing money")
    keep_for: str = Field(
        KEEP_FOR, pattern=duration.PATTERN, description="Keep it for this long at most: 90s, 30m, 4h or 2d"
    )
    lease: str | None = Field(
        None, description="Use the hardware that an earlier run of this name kept (slicebench leases)"
    )
    wait_for_lock: str = Field(
        "0s",
        pattern=duration.PATTERN,
        description="How long to wait for hardware that another run uses: 10m, 2h",
    )
    workers: int | None = Field(None, description="Workers, where the target lets you choose", gt=0)
    devices_per_worker: int | None = Field(
        None, description="Devices each, where the target lets you choose", gt=0, le=4096
    )
    operation_deadline_s: float | None = Field(
        None,
        description="Longest time for one operation, seconds",
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
    )
    run_deadline_s: float | None = Field(
        None,
        description="Longest time for the workload, seconds",
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
    )
    stop_after_checkpoints: int | None = Field(
        None,
        description="Delete the workload once this many checkpoints are complete, then start it again: it must resume",
        gt=0,
    )
    local_directory: str | None = Field(
        None,
        description="Folder on each worker's host for local tiers of checkpoints: absolute, e.g. a RAM disk",
    )
    skip_preflight: bool = Field(
        False, description="Do not check the target before the run: what it lacks shows when it is needed"
    )
    debug_dumps: bool = Field(False, description="Write XLA dumps to the run's folder")
    verbose: bool = Field(
        False,
        description="Log every call to outside services in run.log; at a terminal, show these and what workers write",
    )


def as_filled_in(form: Mapping[str, Any]) -> RunRequest:
    """Returns the request of a form, where what is left empty is ''. Raises BadInput by the names of the form."""
    given = {
        name: value
        for name, value in form.items()
        if value != "" or RunRequest.model_fields[name].default is not None
    }
    return checked(RunRequest, given)
