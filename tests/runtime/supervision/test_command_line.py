"""What a supervisor asks of its worker is what the worker understands."""

from __future__ import annotations

from dataclasses import replace

from runtime.contract.job import Job
from runtime.settings import parse
from runtime.supervision.command import command_line

JOB = Job(
    run_id="r",
    lease_id="r-e1",
    attempt=2,
    worker=1,
    workers=2,
    slice_index=0,
    rendezvous="127.0.0.1:1",
    token="t",
    suite="/b/suite.yaml",
    code="/b/code",
    output="/o/r",
    scratch="/s",
    python="python",
    platform="cpu",
)


def test_a_worker_reads_its_command_line_as_it_was_meant() -> None:
    job = replace(
        JOB, devices_per_worker=4, points=(0, 3), debug_dumps=True, local_directory="/dev/shm/r-w0001"
    )
    settings = parse(command_line(job, 3, "127.0.0.1:2")[3:], {})
    assert (settings.local_directory, settings.debug_dumps) == ("/dev/shm/r-w0001", True)
    assert (settings.points, settings.first_point, settings.devices_per_worker) == (frozenset({0, 3}), 3, 4)
    assert (settings.membership.worker, settings.membership.workers) == (1, 2)


def test_what_a_job_leaves_out_stays_out() -> None:
    settings = parse(command_line(JOB, 0, "127.0.0.1:2")[3:], {})
    assert (settings.local_directory, settings.debug_dumps, settings.points) == (None, False, None)
