"""Stands in for `python -m runtime` without JAX: goes through points, and misbehaves where its suite says so.

The suite is JSON: {"points": 4, "do": {"WORKER.POINT": "crash"}, "disrupt": {"POINT": {"at_step": 2}}}.
It measures nothing, and seals that as it is done, but for the one library that takes longer than all else here.
Anything else goes to the real Python.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runtime import results_io, stacks
from runtime.contract.results import Sample

FOREVER_S = 600.0

NO_SAMPLES = Path(__file__).with_name("no_samples.parquet")
"""What sealing writes where nothing was measured."""


class Said(Exception):
    """The point fails with this cause."""


def write_no_samples(samples: list[Sample], path: Path) -> None:
    """Writes what `results_io` does with a library that takes 0.2 s of processor to import."""
    assert not samples
    path.write_bytes(NO_SAMPLES.read_bytes())


def tell(kind: str, **fields: object) -> None:
    os.write(int(os.environ["SLICEBENCH_PROGRESS_FD"]), json.dumps({"kind": kind, **fields}).encode() + b"\n")


def wait_at_barrier() -> None:
    """Waits as JAX does for a neighbour: the name shows in the stacks."""
    time.sleep(FOREVER_S)


def child(code: str, **more: object) -> None:
    subprocess.Popen([sys.executable, "-c", code], **more)  # type: ignore[call-overload]


def misbehave(what: str, given: argparse.Namespace) -> None:
    name, _, argument = what.partition(":")
    me = os.getpid()
    match name:
        case "crash":
            print("something went wrong in C++", file=sys.stderr, flush=True)
            os._exit(7)
        case "exit0":
            os._exit(0)
        case "kill":
            os.kill(me, signal.Signals[argument])
            time.sleep(FOREVER_S)
        case "say_and_abort":
            print(argument, file=sys.stderr, flush=True)
            os.kill(me, signal.SIGABRT)
        case "fail" | "fail_and_go_on":
            raise Said(argument or "leaf a/b differs")
        case "wait_and_fail":
            time.sleep(0.1)
            raise Said(argument)
        case "hang":
            time.sleep(FOREVER_S)
        case "env":
            print(f"{argument} is {os.environ.get(argument)}", flush=True)
        case "wait":
            wait_at_barrier()
        case "until":
            while not Path(argument).exists():
                time.sleep(0.02)
        case "stop":
            os.kill(me, signal.SIGSTOP)
        case "ignore_term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ignoring SIGTERM", flush=True)
            time.sleep(FOREVER_S)
        case "leave_at_term":
            signal.signal(signal.SIGTERM, lambda *_: os._exit(99))
            print("waiting for SIGTERM", flush=True)
            time.sleep(FOREVER_S)
        case "hide":
            # Out of the session, without the environment, orphaned: and a second one that keeps its label.
            inner = "import os,time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
            child(inner, env={}, stdout=subprocess.DEVNULL, start_new_session=True)
            child(inner, stdout=subprocess.DEVNULL)
            time.sleep(0.3)
        case "detach":
            child("import time; time.sleep(600)", stdout=subprocess.DEVNULL, start_new_session=True)
        case "hold_stdout":
            child("import time; time.sleep(600)", start_new_session=True)
            os._exit(5)
        case "flood":
            line = b"x" * 99 + b"\n"
            for _ in range(int(argument)):
                os.write(1, line * 100)
        case "close_stdout":
            os.close(1)
            os.close(2)
        case "bomb":
            for _ in range(5):
                os.fork()
            time.sleep(FOREVER_S)
        case "garbage":
            os.write(
                int(os.environ["SLICEBENCH_PROGRESS_FD"]),
                b'\xff\x00{"kind":\n[]\n{"kind":"log","text":"x"}\n',
            )
        case "last_line":
            os.write(1, "no newline é".encode())
        case "leak":
            secret = os.environ[argument]
            print(f"\x1b]0;title\x07the secret is {secret}\x1b[2J, and a tab\there", flush=True)
            print(f"{secret[:4]}\x1b[0m{secret[4:]}", file=sys.stderr, flush=True)
            tell("nonsense", text=secret)
            tell("operation", phase="begin", point=0, points=1, operation=f"save\x1b[2J {secret}")
            raise Said(f"401 for {secret}\x1b[2J")
        case "leak_and_die":
            print(f"died with {os.environ[argument]}\x1b[2J", file=sys.stderr, flush=True)
            os._exit(7)
        case "until":
            while not Path(argument).exists():
                time.sleep(0.01)
        case "touch":
            Path(argument).touch()
            time.sleep(FOREVER_S)
        case other:
            raise SystemExit(f"unknown misbehaviour {other}")
    del given


def join(given: argparse.Namespace) -> None:
    """Waits for all workers of the session, as JAX does: none of them goes ahead of one that has not come yet."""
    if given.workers == 1:
        return
    folder = Path(given.output).with_name(f"session-{given.coordinator}")
    folder.mkdir(exist_ok=True)
    (folder / str(given.worker)).touch()
    while len(list(folder.iterdir())) < given.workers:
        time.sleep(0.01)


def train(given: argparse.Namespace, head: dict[str, object], repeats: int = 2, steps: int = 6) -> None:
    """Does the steps of a point that is disrupted; in each repeat it waits to be, and then goes on from the newest."""
    restart = json.loads(given.restart) if given.restart else None
    for repeat in range(restart["repeat"] if restart else 0, repeats):
        first = 0
        if restart:
            print(f"restart of worker {given.worker}: {given.restart}", flush=True)
            first = (-1 if restart["saved"] is None else restart["saved"]) + 1
            tell("step", state="resumed", repeat=repeat, step=first - 1, **head)
        for step in range(first, steps):
            tell("step", state="begun", repeat=repeat, step=step, **head)
            tell("step", state="saved", repeat=repeat, step=step, **head)
        if not restart:
            time.sleep(FOREVER_S)
        restart = None
    given.restart = None


def run(given: argparse.Namespace) -> int:
    suite = json.loads(Path(given.suite).read_text())
    points, do = suite["points"], suite.get("do", {})
    mine = {place: what for place, what in do.items() if place.startswith(f"{given.worker}.")}
    print(f"stand-in of worker {given.worker} from point {given.first_point}", flush=True)
    tell("init", phase="begin")
    if early := mine.get(f"{given.worker}.init"):
        misbehave(early, given)
    join(given)
    tell("init", phase="end", process_count=given.workers)
    failed = 0
    with Path(given.scratch, "journal.jsonl").open("a") as journal:
        for point in range(given.first_point, points):
            if given.points and str(point) not in given.points.split(","):
                continue
            head = {"point": point, "points": points, "benchmark": "Fake"}
            disrupted = suite.get("disrupt", {}).get(str(point))
            more = {"disruption": disrupted} if disrupted else {}
            tell("point", phase="begin", key=f"k{point}", generator="fake.Fake", **more, **head)
            status, cause = "passed", ""
            try:
                tell("operation", phase="begin", repeat=0, operation="save", **head)
                if what := mine.get(f"{given.worker}.{point}"):
                    misbehave(what, given)
                if disrupted:
                    train(given, {"point": point, "points": points})
                tell("operation", phase="end", repeat=0, operation="save", **head)
            except Said as error:
                status, cause = "failed", str(error)
                failed += 1
            result = {
                "run_id": given.run_id,
                "attempt": given.attempt,
                "point": point,
                "worker": given.worker,
            }
            result |= {"benchmark": "Fake", "benchmark_key": f"k{point}", "generator": "fake.Fake"}
            result |= {"implementation": "native", "status": status, "cause": cause, "repeats_done": 1}
            journal.write(json.dumps({"record": "point", **result}) + "\n")
            journal.flush()
            tell("point", phase="end", status=status, cause=cause, **head)
            if cause and given.workers > 1 and "go_on" not in mine[f"{given.worker}.{point}"]:
                return 1
    if late := mine.get(f"{given.worker}.end"):
        misbehave(late, given)
    results_io.seal(Path(given.scratch), given.output, given.attempt, given.worker)
    tell("done", points=points, failed=failed)
    if last := mine.get(f"{given.worker}.done"):
        misbehave(last, given)
    return 1 if failed else 0


def print_points(suite: str) -> None:
    points = json.loads(Path(suite).read_text())["points"]
    for point in range(points):
        head = {"point": point, "points": points, "benchmark": "Fake", "key": f"k{point}"}
        print(json.dumps({"kind": "point", "phase": "begin", **head}))


def main() -> int:
    if sys.argv[2] in os.environ.get("STAND_IN_STALLS", "").split(","):
        time.sleep(FOREVER_S)
    if sys.argv[1:3] == ["-m", "runtime.supervision.points"]:
        print_points(sys.argv[3])
        return 0
    results_io._write_parquet = write_no_samples
    if sys.argv[1:3] == ["-m", "runtime.results_io"]:
        return results_io.main(sys.argv[3:])
    if sys.argv[1:3] != ["-m", "runtime"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    stacks.arm()
    parser = argparse.ArgumentParser()
    parser.add_argument("suite")
    for flag in ("--output", "--run-id", "--scratch", "--platform", "--coordinator", "--points", "--restart"):
        parser.add_argument(flag)
    for flag in ("--attempt", "--first-point", "--worker", "--workers", "--devices-per-worker"):
        parser.add_argument(flag, type=int)
    for flag in ("--heartbeat-s", "--init-deadline-s"):
        parser.add_argument(flag, type=float)
    return run(parser.parse_args(sys.argv[3:]))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
