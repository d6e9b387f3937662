"""A stand-in for the supervisor: reads a real job file, writes a real stream, and does what WORKLOAD tells it.

`WORKLOAD` in the job's environment is one of: succeed, fail, crash (no last word), hold (until a signal), wait
(until a file `go` is in its scratch, or a signal), count (300 lines, 10 ms apart), write (files into the output).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from runtime.contract import progress
from runtime.contract.job import Job


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
    signal.alarm(120)
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
        if what == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        say(progress.Operation("end", 0, 1, "tiny", 0, "save"))
        return end(1, "worker 0: wrong data") if what == "fail" else end(0, "")
    except Told:
        return end(130, "told to stop")


if __name__ == "__main__":
    sys.exit(main())
