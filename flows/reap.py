"""What outlived its lease goes: the reaper as a flow, on its own schedule and in its own pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect import flow, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import State
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.attempt import run_id_of
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode
from tasks.leases import reaper
from tasks.leases.lease import Lease
from tasks.leases.opening import the_inventories, the_ledger

_LATEST = 200
"""How many flow runs are looked at, the latest first: leases older than those have expired by themselves."""


@flow(name="reap", retries=0, persist_result=False, description="Gives back what outlived its run.")
def reap() -> State[Any]:
    """Judges every lease; releases what nobody answers for. Fails when something could not be proven gone."""
    log = get_run_logger()
    ledger = the_ledger()
    inventories = the_inventories(ledger)
    findings = reaper.reap(ledger, inventories, ended=_ended_in_prefect())
    for finding in findings:
        log.info("%s: %s, %s", finding.lease_id, finding.did, finding.why)
    code = reaper.exit_code(findings)
    released = sum(finding.did == "released" for finding in findings)
    if code is not ExitCode.DONE:
        worst = next(finding for finding in findings if finding.exit_code is code)
        return Failed(message=f"{code.name}: {worst.lease_id}: {worst.why}")
    return Completed(message=f"{released} of {counted(len(findings), 'lease')} released")


def _ended_in_prefect() -> Callable[[Lease], bool]:
    """Returns whether all flow runs of a lease's run have come to their end, as far as Prefect knows."""
    with get_client(sync_client=True) as client:
        flow_runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=["benchmark"])),
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=_LATEST,
        )
    ended: dict[str, bool] = {}
    for flow_run in flow_runs:
        if "suite" not in flow_run.parameters:  # somebody else's flow of that name
            continue
        run_id = run_id_of(flow_run.id, flow_run.created, flow_run.parameters)
        over = flow_run.state is not None and flow_run.state.is_final()
        ended[run_id] = ended.get(run_id, True) and over
    return lambda lease: lease.run_id is not None and ended.get(lease.run_id, False)
