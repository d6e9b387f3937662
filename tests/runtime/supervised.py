"""Starts supervisors around stand-in workers, for tests: one crew is all workers of one attempt."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runtime.contract.job import LEASE_VARIABLE, Deadlines, Job
from runtime.contract.progress import Exited, Log, Record, parse_record
from runtime.supervision.processes import Process, labelled
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in.py")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


Make = Callable[..., "Crew"]


@dataclass
class Crew:
    """The supervisors of one attempt."""

    folder: Path
    workers: int = 1
    points: int = 3
    do: dict[str, str] = field(default_factory=dict)
    disrupt: dict[str, dict[str, Any]] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    lease: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex}-e1")
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def jobs(self) -> Iterator[Job]:
        suite = self.folder / "suite.json"
        suite.write_text(json.dumps({"points": self.points, "do": self.do, "disrupt": self.disrupt}))
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        python.chmod(0o755)
        base = Job(
            run_id="run",
            lease_id=self.lease,
            attempt=1,
            worker=0,
            workers=self.workers,
            slice_index=0,
            rendezvous=f"127.0.0.1:{free_port()}",
            token="secret",
            suite=str(suite),
            code=str(ROOT),
            output=str(self.folder / "run"),
            scratch="",
            python=str(python),
            platform="cpu",
            deadlines=Deadlines(init_s=120.0, operation_s=60.0),
            grace_s=60.0,  # for sealing the results; workers that heed SIGTERM are gone at once
        )
        for worker in range(self.workers):
            yield replace(base, **{"worker": worker, "scratch": str(self.folder / f"w{worker}"), **self.job})

    def start(self, only: tuple[int, ...] | None = None) -> Crew:
        for job in self.jobs():
            if only is None or job.worker in only:
                self.start_one(job)
        return self

    def start_one(self, job: Job) -> subprocess.Popen[bytes]:
        file = self.folder / f"job{job.worker}.json"
        file.write_text(job.to_json())
        with (self.folder / f"supervisor{job.worker}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "runtime.supervise", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), LEASE_VARIABLE: self.lease},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def wait(self, limit_s: float = PATIENCE_S) -> list[int]:
        """Returns the exit codes, in order of worker."""
        end = time.monotonic() + limit_s
        return [process.wait(max(0.1, end - time.monotonic())) for process in self.started]

    def path(self, worker: int = 0) -> Path:
        return self.folder / f"w{worker}" / "stream.jsonl"

    def records(self, worker: int = 0) -> list[Record]:
        """Returns the whole stream, having checked its numbers."""
        if not self.path(worker).exists():
            return []
        lines = self.path(worker).read_bytes().split(b"\n")[:-1]
        records = [parse_record(line) for line in lines]
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        return records

    def bodies(self, kind: type[Any], worker: int = 0) -> list[Any]:
        return [record.body for record in self.records(worker) if isinstance(record.body, kind)]

    def exited(self, worker: int = 0) -> Exited:
        body = self.records(worker)[-1].body
        assert isinstance(body, Exited)
        return body

    def says(self, text: str, worker: int = 0) -> bool:
        return any(text in body.text for body in self.bodies(Log, worker))

    def points_file(self, worker: int = 0) -> dict[int, tuple[str, str]]:
        """Returns status and cause of each sealed point."""
        path = self.folder / "run" / "results" / f"points-a1-w{worker:04d}.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        return {point["point"]: (point["status"], point["cause"]) for point in found}

    def left(self) -> list[Process]:
        return labelled(f"{LEASE_VARIABLE}={self.lease}\0".encode())

    def nothing_left(self, limit_s: float = PATIENCE_S) -> None:
        until(lambda: not self.left(), limit_s)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        for process in self.left():
            os.kill(process.pid, signal.SIGKILL)
