"""Puts into a Prefect server what slicebench needs there: work pools, deployments, heartbeat automation.

`python -m flows.serving.register`, from the root of the checkout, with PREFECT_API_URL set; `slicebench up` calls it.
Prints one word a line as it gets there: `pools`, then `deployments`; or why it must not. May be run again at any time.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

from prefect import get_client
from prefect.cli import app
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterNextScheduledStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType, WorkerStatus
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled
from prefect.workers.process import ProcessWorker

from flows.serving import place
from flows.serving.ephemeral import wait_until_ready
from flows.serving.settings import DATABASE, POOLS, REFUSED, ROOT
from runtime.contract.errors import BadInput, ExitCode

PREFECT_FILE = "deployments/prefect.yaml"

SILENCE_S = 90
"""Three heartbeats of 30 s, the shortest that Prefect sends."""

RETIRED = ("benchmark/weeknights",)
"""Deployments that are no more."""

MISSED_AFTER = timedelta(minutes=15)

TAG = "slicebench"
"""Of every deployment in `PREFECT_FILE`, and so of its runs."""

MATCH_OURS = ResourceSpecification.model_validate(
    {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{TAG}"}
)
"""Heartbeats tell flow, tags and a deployment's id; pool and deployment's name stand in other events only."""

CRASH_SILENT_RUNS = "slicebench: a silent run has crashed"


def main() -> None:
    """Registers everything with the server of PREFECT_API_URL."""
    wait_until_ready(os.environ)
    with get_client(sync_client=True) as client:
        if any(name.startswith(DATABASE) for name in os.environ):
            refuse_others(client, datetime.now(UTC))
        cancel_missed(client, datetime.now(UTC))
        for name, description in POOLS.items():
            ensure_pool(client, name, description)
        print("pools", flush=True)
        ensure_heartbeat_automation(client)
        retire(client)
    deploy()
    print("deployments", flush=True)


def refuse_others(client: SyncPrefectClient, now: datetime) -> None:
    """Raises BadInput where the workers of another `slicebench up` look for work in the same database.

    Pools and deployments have the same names for all: each would take the other's runs, in its own checkout.
    """
    for pool in POOLS:
        try:
            workers = client.read_workers_for_work_pool(pool)
        except ObjectNotFound:
            continue
        for worker in workers:
            theirs = worker.name.startswith(f"{pool}-on-") and worker.name != place.worker_of(pool)
            if theirs and worker.status == WorkerStatus.ONLINE and worker.last_heartbeat_time is not None:
                silent_s = (now - worker.last_heartbeat_time).total_seconds()
                raise BadInput(
                    f"another slicebench up works on this database: its worker {worker.name} was heard "
                    f"{silent_s:.0f} s ago, and each would take the other's runs",
                    fix="start runs there, or give this one a database of its own; an up that went down is forgotten "
                    "within two minutes",
                )


def cancel_missed(client: SyncPrefectClient, now: datetime) -> None:
    """Cancels what our schedules wanted while nothing was up: else all of it would start now, at once."""
    missed = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        next_scheduled_start_time=FlowRunFilterNextScheduledStartTime.model_validate(
            {"before_": now - MISSED_AFTER}
        ),
    )
    ours = WorkPoolFilter(name=WorkPoolFilterName(any_=list(POOLS)))
    for flow_run in client.read_flow_runs(flow_run_filter=missed, work_pool_filter=ours):
        if flow_run.auto_scheduled:
            client.set_flow_run_state(flow_run.id, Cancelled(message="missed: nothing was up"), force=True)


def ensure_pool(client: SyncPrefectClient, name: str, description: str) -> None:
    """Makes a work pool of type process, or lets the one that is there take work again."""
    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=name, type="process", description=description, base_job_template=template)
        )
    else:
        client.update_work_pool(name, WorkPoolUpdate(is_paused=False))


def ensure_heartbeat_automation(client: SyncPrefectClient) -> None:
    """Makes the server call a run crashed that has gone silent: a killed one would stay Running for ever."""
    wanted = heartbeat_automation()
    known = client.read_automations_by_name(CRASH_SILENT_RUNS)
    if not known:
        client.create_automation(wanted)
    for one in known:
        # An earlier version's took others' runs for ours. One that is right is left alone: it is counting silence.
        if not isinstance(one.trigger, EventTrigger) or one.trigger.match_related != MATCH_OURS:
            client.update_automation(one.id, wanted)


def retire(client: SyncPrefectClient) -> None:
    """Takes out the deployments of earlier versions that others stand in for: their schedules would go on beside."""
    for name in RETIRED:
        try:
            old = client.read_deployment_by_name(name)
        except ObjectNotFound:
            continue
        if TAG in old.tags:  # somebody else's of that name stays
            client.delete_deployment(old.id)


def heartbeat_automation() -> AutomationCore:
    """Returns it. Of a server that others use as well, it looks at our deployments' runs only, known by their tag."""
    return AutomationCore(
        name=CRASH_SILENT_RUNS,
        description=f"A flow run that is not heard for {SILENCE_S} s is dead; the reaper does the rest.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            # Any word of the run counts as a sign of life, its end included.
            expect={"prefect.flow-run.*"},
            match=ResourceSpecification.model_validate({"prefect.resource.id": ["prefect.flow-run.*"]}),
            match_related=MATCH_OURS,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=SILENCE_S),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, name=None, message=f"not heard for {SILENCE_S} s", force=False
            )
        ],
    )


def deploy() -> None:
    """Deploys deployments/prefect.yaml by Prefect's own command, in this process: imports are half its time."""
    os.chdir(ROOT)
    os.environ["PWD"] = str(ROOT)
    before, sys.argv = sys.argv, ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", PREFECT_FILE]
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


if __name__ == "__main__":
    try:
        main()
    except BadInput as refusal:
        print(f"{REFUSED}{refusal}", flush=True)
        sys.exit(ExitCode.BAD_INPUT)
