"""A run in this process without Prefect: it begins some ten seconds sooner, and is in no UI."""

from __future__ import annotations

from flows.narration import Narrator, heard_by
from flows.pipeline import Stages, play
from flows.signals import interrupting
from flows.terminal import Terminal
from tasks.config.request import RunRequest
from tasks.history.results import Results
from tasks.history.verdict import Verdicts
from tasks.leases.holding import Holding
from tasks.preload import preload
from tasks.stages import build, leaving, provision, run, teardown, upload
from tasks.stages.context import Run
from tasks.targets.types import Outcome, Uploaded


def run_directly(request: RunRequest, terminal: Terminal) -> str:
    """Plays a run to its end; returns in a line how it ended.

    Raises KeyboardInterrupt when a signal ended it; by then everything was given back. What is left of a process that
    is killed goes by the same ways as with Prefect: by its supervisors, and by the reaper.
    """
    stages = Stages(
        build=build.build,
        provision=provision.provision,
        upload=upload.upload,
        run_workload=_run_workload,
        come_back=_come_back,
        collect=_collect,
        teardown=teardown.teardown,
        compare=_compare,
        report=_report,
    )
    with interrupting(terminal.tell), heard_by(terminal):
        return play(request, Narrator(), stages).message


def _run_workload(of: Run, uploaded: Uploaded, lease: Holding) -> Outcome:
    return run.run_workload(of, uploaded, lease, once_heard=preload)


def _come_back(of: Run, lease: Holding) -> None:
    leaving.come_back(of, lease, once_heard=preload)


# What these import is slow, and imported while the workers start: see tasks/preload.py.


def _collect(of: Run) -> Results:
    from tasks.stages.collect import collect

    return collect(of)


def _compare(of: Run) -> Verdicts:
    from tasks.stages.compare import compare

    return compare(of)


def _report(of: Run) -> str:
    from tasks.stages.report import report

    return report(of)
