"""A stand-in for the supervisor: reads a real job file, writes a real stream, and does what WORKLOAD tells it.

`WORKLOAD` in the job's environment is one of: succeed, fail, crash (no last word), hold (until a signal), wait
(until a file `go` is in its scratch, or a signal), count (300 lines, 10 ms apart), write (files into the output),
tell (say the value of HF_TOKEN, and end with a cause that names it),
train (steps, each with a checkpoint in the output, until a signal, or STEPS of them; started again it says from where
it goes on, and does two more),
measure (run the POINTS points that the job asks for, and write down a result and a sample of each; one fails while
a file `broken-POINT-WORKER` is in the output).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runtime.contract import progress
from runtime.contract.job import Job
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.results import PointResult, Sample
from runtime.results_io import Journal, seal


def main() -> int:
    job = Job.read(Path(sys.argv[1]))
    seq = 0

    def say(body: progress.Body) -> None:
        nonlocal seq
        seq += 1
        with Path(job.scratch, "stream.jsonl").open("a") as stream:
            stream.write(progress.encode(body, seq=seq, at=time.time()) + "\n")

    def end(code: int, cause: str) -> int:
        say(progress.Exited(code, cause))
        return code

    class Told(Exception):
        pass

    def told(number: int, frame: object) -> None:
        raise Told

    signal.signal(signal.SIGTERM, told)
    # Whatever becomes of the test, this does not stay for ever.
    signal.alarm(900)
    what = job.env.get("WORKLOAD", "succeed")
    try:
        say(progress.Log(f"worker {job.worker} of {job.workers} on {job.devices_per_worker} devices"))
        say(progress.Operation("begin", 0, 1, "tiny", 0, "save"))
        print("to the supervisor's own log", flush=True)
        while what == "hold" or (what == "wait" and not Path(job.scratch, "go").exists()):
            time.sleep(0.02)
        for number in range(300 if what == "count" else 0):
            say(progress.Log(f"line {number}"))
            time.sleep(0.01)
        if what == "write":
            for name in ("results/deep/er/file", "checkpoints/large"):
                Path(job.output, name).parent.mkdir(parents=True)
                Path(job.output, name).write_bytes(b"result")
        if what == "train":
            train(job, say)
        if what == "tell":
            say(progress.Log(f"it is {job.env['HF_TOKEN']}"))
            return end(1, f"worker 0: {job.env['HF_TOKEN']} was refused")
        if what == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        say(progress.Operation("end", 0, 1, "tiny", 0, "save"))
        if what == "measure":
            failed = measure(job)
            return end(1, f"point {failed[0]} failed: it is broken") if failed else end(0, "")
        return end(1, "worker 0: wrong data") if what == "fail" else end(0, "")
    except Told:
        return end(130, "told to stop")


def train(job: Job, say: Callable[[progress.Body], None]) -> None:
    first = 0
    if job.restart is not None:
        first = (job.restart.saved or 0) + 1
        say(progress.Step("resumed", 0, 1, 0, first - 1))
    last = first + 2 if job.restart is not None else int(job.env.get("STEPS", "10000"))
    for step in range(first, last):
        place = Path(job.output, "checkpoints", "key-0", "repeat_0", str(step), f"of-{job.worker}")
        place.parent.mkdir(parents=True, exist_ok=True)
        say(progress.Step("begun", 0, 1, 0, step))
        place.write_bytes(b"plain text, as anybody can read it")
        say(progress.Step("saved", 0, 1, 0, step))
        time.sleep(0.02)


def measure(job: Job) -> list[int]:
    failed: list[int] = []
    name = f"a{job.attempt}-w{job.worker:04d}"
    records: list[Sample | PointResult] = []
    for point in range(int(job.env["POINTS"])):
        if job.points is not None and point not in job.points:
            continue
        of = {"run_id": job.run_id, "attempt": job.attempt, "point": point, "worker": job.worker}
        head = {**of, "benchmark": "tiny", "benchmark_key": f"key-{point}"}
        broken = Path(job.output, f"broken-{point}-{job.worker}").exists()
        if broken:
            failed.append(point)
        records.append(
            Sample(**head, repeat=0, occurrence=0, operation="save", metric="time", value=float(job.attempt),
                   unit="s", warmup=False, started_at=time.time())
        )  # fmt: skip
        records.append(
            PointResult(**head, generator="g", implementation="native", repeats_done=1,
                        status="failed" if broken else "passed", cause="it is broken" if broken else "")
        )  # fmt: skip
    with Journal(Path(job.scratch, JOURNAL_FILE)) as journal:
        journal.extend(records)
    seal(Path(job.scratch), job.output, job.attempt, job.worker)
    assert Path(job.output, "results", f"points-{name}.jsonl").exists()
    return failed


if __name__ == "__main__":
    sys.exit(main())
