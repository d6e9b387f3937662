"""Makes runs in pods that are left to themselves, and plays their pipeline: for tests."""

from __future__ import annotations

import json
import time
from typing import Any

from flows.ending import Ending, Interruption
from flows.pipeline import Stages, measure
from tasks.config.request import RunRequest
from tasks.history.results import Results
from tasks.history.verdict import Verdict, Verdicts
from tasks.leases.finding import Finding
from tasks.leases.lease import Lease
from tasks.leases.ledger import latest
from tasks.leases.reaper import reap
from tasks.stages.context import Run
from tasks.stages.leaving import come_back
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tests.tasks.targets.gke_runs import IMAGE, RUN, Pods, a_ledger, inventories


def left(pods: Pods, run_id: str = RUN, **more: Any) -> Run:
    """Returns a run that does not wait; its second worker waits in the second point until the file `go` is there."""
    waits = {"1.1": f"until:{pods.folder / 'go'}"}
    run = pods.run(run_id, **{"wait": False, "limits": {"workload_s": 600}, "do": waits, **more})
    run.folder.write("request.json", json.dumps({"suite_name": "tiny", "target": "pods"}).encode())
    return run


def play(run: Run, *, resume: bool = True) -> Ending:
    """Plays the pipeline, but for building and for what only reads results."""
    stages = Stages(
        build=lambda run: IMAGE,
        provision=provision,
        upload=upload,
        run_workload=run_workload,
        come_back=come_back,
        collect=lambda run: Results(run.spec.run_id, "tiny", "pods", 2, []),
        teardown=teardown,
        compare=lambda run: Verdicts(run.spec.run_id, Verdict.NO_BASELINE, "none"),
        report=lambda run: "report.html",
    )
    asked = RunRequest(suite="tiny", run_id=run.spec.run_id, resume=resume)
    return measure(run, asked, stages, Interruption())


def the_lease(run_id: str = RUN) -> Lease:
    """Returns the run's lease as it stands."""
    found = latest(a_ledger(), run_id)
    assert found is not None
    return found


def reaped(later_s: float = 0.0) -> Finding:
    """Returns what the reaper does about the one lease that there is, so many seconds from now."""
    ledger = a_ledger()
    [finding] = reap(ledger, inventories(ledger), now=lambda: time.time() + later_s, confirm_s=0.0)
    return finding
