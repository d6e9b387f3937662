"""For tests: the pods of a workload as processes of this machine, and the run's folder that they fetch from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runtime.contract.job import LEASE_VARIABLE, Deadlines, Job
from runtime.contract.names import SUITE_FILE
from runtime.contract.pod import RENEWAL_FILE, code_file, job_file
from runtime.contract.progress import Exited, Log, Record, parse_record
from runtime.supervision.processes import labelled
from tests.runtime.supervised import ROOT, STAND_IN, free_port
from tests.waiting import PATIENCE_S


def _bundle() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in sorted((ROOT / "runtime").rglob("*.py")):
            archive.add(file, f"runtime/{file.relative_to(ROOT / 'runtime')}")
    return packed.getvalue()


BUNDLE = _bundle()


@dataclass
class Pods:
    """The pods of one workload, each its container's process."""

    folder: Path
    workers: int = 1
    do: dict[str, str] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def send(self) -> Pods:
        """Writes what a target writes into the run's folder."""
        python = self.folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        python.chmod(0o755)
        code = code_file(hashlib.sha256(BUNDLE).hexdigest())
        job = Job(
            run_id="run",
            lease_id=f"test-{self.folder.name}-e1",
            attempt=1,
            worker=0,
            workers=self.workers,
            slice_index=0,
            rendezvous="",
            token="",
            suite=SUITE_FILE,
            code=code,
            output="",
            scratch="",
            python=str(python),
            platform="cpu",
            deadlines=Deadlines(init_s=60.0, operation_s=60.0),
            grace_s=1.0,
            renewal_file=RENEWAL_FILE,
        )
        (self.run / "pods/a1").mkdir(parents=True)
        (self.run / SUITE_FILE).write_text(json.dumps({"points": 2, "do": self.do}))
        (self.run / code).write_bytes(BUNDLE)
        (self.run / RENEWAL_FILE).write_text("1")
        (self.run / job_file(1)).write_text(replace(job, **self.job).to_json())
        return self

    def start(self, only: tuple[int, ...] | None = None) -> Pods:
        port = free_port()
        self.started.clear()
        for worker in range(self.workers) if only is None else only:
            environ = {
                **{name: value for name, value in os.environ.items() if not name.startswith("SLICEBENCH_")},
                "PYTHONPATH": str(ROOT),
                "SLICEBENCH_RUN": str(self.run),
                "SLICEBENCH_JOB": job_file(1),
                "SLICEBENCH_RENDEZVOUS": f"localhost:{port}",
                "SLICEBENCH_POD_ADDRESS": "127.0.0.1",
                "SLICEBENCH_TOKEN": "of-the-secret",
                "JOB_COMPLETION_INDEX": str(worker),
                "TMPDIR": str(self.folder),
                **self.env,
            }
            (self.folder / f"out{worker}").touch()
            with (self.folder / f"out{worker}").open("wb") as out:
                self.started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "runtime.pod"], stdout=out, cwd=self.folder, env=environ
                    )
                )
        return self

    def wait(self) -> list[int]:
        return [process.wait(PATIENCE_S) for process in self.started]

    def said(self, worker: int = 0) -> list[Record]:
        """Returns what is on stdout so far, every line of it a record, none lost or repeated."""
        lines = (self.folder / f"out{worker}").read_bytes().split(b"\n")[:-1]
        records = [parse_record(line) for line in lines]
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        return records

    def last(self, worker: int = 0) -> Exited:
        body = self.said(worker)[-1].body
        assert isinstance(body, Exited)
        return body

    def says(self, text: str, worker: int = 0) -> bool:
        bodies = [record.body for record in self.said(worker)]
        return any(text in body.text for body in bodies if isinstance(body, Log))

    def left(self) -> list[int]:
        return [one.pid for one in labelled(f"{LEASE_VARIABLE}=test-{self.folder.name}-e1\0".encode())]
