"""Following streams: nothing lost or repeated, whoever dies, and no flood for people."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract import progress
from runtime.contract.errors import InfrastructureError
from runtime.contract.progress import Log, Record, encode
from runtime.contract.redaction import Redaction
from tasks.follow import Follower, Sampler
from tasks.targets.streams import LOST, event_of, follow_streams, read_stream
from tasks.targets.types import Event, Exited, LogLine, Progress, SidecarLine, State
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]


def line(seq: int, body: progress.Body) -> bytes:
    return encode(body, seq=seq, at=1.0).encode() + b"\n"


def write(path: Path, *bodies: progress.Body, first: int = 1) -> None:
    with path.open("ab") as file:
        file.write(b"".join(line(n, body) for n, body in enumerate(bodies, first)))


def test_a_whole_stream_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, Log("a"), Log("b"), progress.Exited(0))
    assert [record.seq for record in read_stream(path, 0, lambda: True)] == [1, 2, 3]
    assert [record.seq for record in read_stream(path, 2, lambda: True)] == [3]


def test_what_stands_beside_a_worker_has_a_log_of_its_own_which_is_gone_on_with(tmp_path: Path) -> None:
    said: list[str] = []
    for events in (
        [SidecarLine(1, 5, "a"), SidecarLine(1, 7, "my hunter22 is"), LogLine(1, 1, "of the worker")],
        [SidecarLine(1, 5, "a"), SidecarLine(1, 7, "again"), SidecarLine(1, 8, "b"), SidecarLine(0, 1, "c")],
    ):
        place = lambda worker: tmp_path / f"beside-{worker}.log"  # noqa: E731
        with Follower(
            tmp_path / "logs", said.append, redact=Redaction(["hunter22"]), sidecars=place
        ) as follower:
            follower.follow(iter(events))
    assert (tmp_path / "beside-1.log").read_text() == "a\nmy (redacted) is\nb\n"
    assert (tmp_path / "beside-0.log").read_text() == "c\n"
    assert said == ["[1] of the worker"]


def test_a_stream_is_followed_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "s"
    records = read_stream(path, 0, lambda: True)

    def grow() -> None:
        whole = line(1, Log("x" * 3_000_000)) + line(2, progress.Exited(1, "why"))
        for start in range(0, len(whole), 1_000_003):
            with path.open("ab") as file:
                file.write(whole[start : start + 1_000_003])

    writer = threading.Thread(target=grow)
    writer.start()
    found = list(records)
    writer.join()
    assert [record.seq for record in found] == [1, 2]
    assert found[1].body == progress.Exited(1, "why")


def test_a_supervisor_that_died_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, Log("a"))
    with path.open("ab") as file:
        file.write(b'{"seq":2,"at":1')
    *_, last = read_stream(path, 0, lambda: False)
    assert isinstance(last.body, progress.Exited)
    assert (last.body.code, last.seq) == (LOST, 1)
    assert str(path) in last.body.cause


def test_a_supervisor_that_never_wrote_is_told(tmp_path: Path) -> None:
    (last,) = read_stream(tmp_path / "none", 0, lambda: False)
    assert isinstance(last.body, progress.Exited)


def test_the_last_words_of_a_dying_supervisor_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def alive() -> bool:
        if path.exists():
            return False
        write(path, Log("a"), progress.Exited(3, "cause"))  # it wrote and died after it was asked about
        return True

    assert [type(record.body) for record in read_stream(path, 0, alive)] == [Log, progress.Exited]


def test_a_torn_tail_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, Log("a"))
    with path.open("ab") as file:
        file.write(b'{"seq":2,"at":1.0,"kind":"log","text":"torn')
    records = read_stream(path, 0, lambda: True)
    assert next(records).seq == 1
    os.truncate(path, len(line(1, Log("a"))))
    write(path, Log("b"), progress.Exited(0), first=2)
    assert [record.body for record in records] == [Log("b"), progress.Exited(0)]


def test_a_damaged_line_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, Log("a"))
    with path.open("ab") as file:
        file.write(b"\x00\xff nothing\n")
    write(path, progress.Exited(0), first=3)
    found = list(read_stream(path, 0, lambda: True))
    assert [record.seq for record in found] == [1, 2, 3]
    assert "damaged" in str(found[1].body)


def test_streams_of_several_workers_are_merged(tmp_path: Path) -> None:
    paths = {worker: tmp_path / f"s{worker}" for worker in range(3)}
    write(paths[0], Log("a"), progress.Exited(0))
    write(paths[1], Log("skipped"), Log("b"), progress.Exited(1, "why"))
    events = list(follow_streams(paths, {1: 1}, lambda worker: worker != 2))
    assert LogLine(0, 1, "a") in events
    assert LogLine(1, 2, "b") in events
    assert {event.worker: event.code for event in events if isinstance(event, Exited)} == {
        0: 0,
        1: 1,
        2: LOST,
    }
    assert len(events) == 5


def test_every_kind_of_record_is_an_event() -> None:
    bodies: list[progress.Body] = [
        progress.Init("begin"),
        progress.Init("end", process_count=2, device_count=4),
        progress.Done(3, 1),
        progress.Started(1, 7, 2),
        Log("text", "stderr"),
        progress.Deadline("operation", 0, 3.0, "save", 1, (1,)),
        progress.Stacks("Thread"),
        progress.WorkerExited(1, -9, "killed"),
    ]
    for body in bodies:
        event = event_of(1, Record(5, 0.0, body))
        assert isinstance(event, LogLine)
        assert event.cursor == 5
    operation = progress.Operation("begin", 1, 3, "B", 2, "save")
    assert event_of(1, Record(5, 0.0, operation)) == Progress(1, 5, 1, 3, "B", 2, "save", "begin")
    point = progress.PointPhase("end", 1, 3, "B", status="passed")
    assert event_of(1, Record(5, 0.0, point)) == Progress(1, 5, 1, 3, "B", 0, "", "end")


def test_user_code_cannot_speak_as_a_supervisor_nor_out_of_its_line(tmp_path: Path) -> None:
    said: list[str] = []
    judged = "benchmark 1 of 1 (B) failed: boom"
    told = [
        progress.Log(judged, "supervisor"),
        progress.Log(f"supervisor: {judged}"),
        progress.Log("a\nverdict: b"),
    ]
    events = [event_of(1, Record(seq, 0.0, body)) for seq, body in enumerate(told, 1)]
    with Follower(tmp_path, said.append) as follower:
        follower.follow([*events, Exited(1, 0)])
    own = [f"supervisor: {judged}", f"| supervisor: {judged}", "a", "verdict: b"]
    assert "\n".join(said).splitlines() == [f"[1] {line}" for line in own]
    assert (tmp_path / "worker-0001.log").read_text().splitlines() == own


def test_logs_progress_and_ends_are_sorted_out(tmp_path: Path) -> None:
    said: list[str] = []
    seen: list[Progress] = []
    step = Progress(1, 2, 0, 1, "B", 0, "save", "begin")
    events: list[Event] = [
        LogLine(1, 1, "hello \x1b[31mred"),
        step,
        State("running", "all here"),
        Exited(1, 3, "why"),
    ]
    with Follower(tmp_path, said.append, seen.append) as follower:
        assert follower.follow(events) == {1: Exited(1, 3, "why")}
        assert follower.cursors() == {1: 2}
    assert (tmp_path / "worker-0001.log").read_text() == "hello red\n"
    assert seen == [step]
    assert said == [
        "[1] hello red",
        "benchmark 1 of 1: B",
        "running: all here",
        "worker 1 ended with code 3: why",
    ]


def test_a_second_follower_is_refused(tmp_path: Path) -> None:
    with Follower(tmp_path, print), pytest.raises(InfrastructureError, match="another process"):
        Follower(tmp_path, print)
    Follower(tmp_path, print).close()


def test_a_log_that_was_cut_is_written_again(tmp_path: Path) -> None:
    with Follower(tmp_path, lambda text: None) as follower:
        follower.follow([LogLine(0, 1, "a"), LogLine(0, 2, "b")])
    os.truncate(tmp_path / "worker-0000.log", 1)
    with Follower(tmp_path, lambda text: None) as follower:
        assert follower.cursors() == {0: 0}


FOLLOW = """
import sys
from pathlib import Path
from tasks.follow import Follower
from tasks.targets.streams import follow_streams
logs, stream = Path(sys.argv[1]), Path(sys.argv[2])
with Follower(logs, lambda text: None) as follower:
    follower.follow(follow_streams({0: stream}, follower.cursors(), lambda worker: True))
"""


def test_a_killed_follower_loses_and_repeats_nothing(tmp_path: Path) -> None:
    stream, logs = tmp_path / "s", tmp_path / "logs"
    wanted = [f"line {n}" for n in range(3000)]
    step = progress.Operation("begin", 0, 1, "B", 0, "save")

    def grow() -> None:
        for start in range(0, len(wanted), 10):
            write(
                stream, *(Log(text) for text in wanted[start : start + 10]), step, first=start // 10 * 11 + 1
            )
            time.sleep(0.008)
        write(stream, progress.Exited(0), first=3301)

    writer = threading.Thread(target=grow)
    writer.start()
    command = [sys.executable, "-c", FOLLOW, str(logs), str(stream)]
    log = logs / "worker-0000.log"
    for kill in range(4):
        follower = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        before = log.stat().st_size if log.exists() else 0
        if kill < 3:
            until(
                lambda before=before: (log.exists() and log.stat().st_size > before) or not writer.is_alive()
            )
            follower.send_signal(signal.SIGKILL)
        follower.wait(PATIENCE_S)
    writer.join()
    assert log.read_text().splitlines() == wanted


def test_a_flood_is_sampled_and_counted(tmp_path: Path) -> None:
    now = [0.0]
    said: list[str] = []

    def events() -> Iterator[Event]:
        for n in range(1, 5001):
            now[0] += 0.001
            yield LogLine(0, n, str(n))

    with Follower(tmp_path, said.append, lines_per_s=100, clock=lambda: now[0]) as follower:
        follower.follow(events())
    assert 480 <= len([text for text in said if text.startswith("[0]")]) <= 500
    left_out = sum(int(text.split()[1]) for text in said if text.startswith("…"))
    assert left_out + len([text for text in said if text.startswith("[0]")]) == 5000
    assert len((tmp_path / "worker-0000.log").read_text().splitlines()) == 5000


def test_the_sampler_gives_room_back() -> None:
    now = [0.0]
    sampler = Sampler(3, lambda: now[0])
    assert [sampler.takes() for _ in range(4)] == [True, True, True, False]
    now[0] = 1.0
    assert sampler.takes()
    assert (sampler.left_out(), sampler.left_out()) == (1, 0)
    assert [sampler.takes() for _ in range(2)] == [True, False], (
        "the line that tells of the one left out counts"
    )


@pytest.mark.parametrize("seed", range(5))
def test_in_no_second_more_lines_go_through_than_allowed(seed: int) -> None:
    dice, now, passed = random.Random(seed), 0.0, list[float]()
    sampler = Sampler(100, lambda: now)
    while now < 20:
        now += dice.choice([0.0, 0.0001, 0.003, 0.02, 0.4 if dice.random() < 0.05 else 0.001])
        if sampler.takes():
            passed += [now] * (2 if sampler.left_out() else 1)
    assert len(passed) > 1000
    for first, at in enumerate(passed):
        assert sum(1 for later in passed[first : first + 101] if later < at + 1.0 - 1e-9) <= 100


def test_nothing_that_workers_say_gets_out_unredacted(tmp_path: Path) -> None:
    said: list[str] = []
    states: list[State] = []
    events: list[Event] = [
        LogLine(0, 1, "hunter22 at the start, é\tand \x1b]0;title\x07hun\x1b[1mter22 below an escape"),
        Progress(0, 2, 0, 1, "B\x1b[2J", 0, "save", "begin"),
        State("preempted", "hunter22\x1b[2J", "at\x00 last hunter22"),
        Exited(0, 1, "RuntimeError: hunter22\x1b[2J"),
    ]
    redact = Redaction(["hunter22"])
    with Follower(tmp_path, said.append, on_state=states.append, redact=redact) as follower:
        exits = follower.follow(events)
    assert exits == {0: Exited(0, 1, "RuntimeError: (redacted)")}
    assert states == [State("preempted", "(redacted)", "at last (redacted)")]
    log = (tmp_path / "worker-0000.log").read_text()
    assert log == "(redacted) at the start, é\tand (redacted) below an escape\n"
    assert said == [
        f"[0] {log.strip()}",
        "benchmark 1 of 1: B",
        "preempted: (redacted); at last (redacted)",
        "worker 0 ended with code 1: RuntimeError: (redacted)",
    ]


def test_each_benchmark_is_announced_once_by_whoever_begins_it(tmp_path: Path) -> None:
    steps = [
        Progress(worker, 1 + point, point, 2, f"B{point}", 0, "save", "begin")
        for point in (0, 1)
        for worker in (0, 1)
    ]
    said: list[str] = []
    with Follower(tmp_path, said.append) as follower:
        follower.follow(steps)
    assert said == ["benchmark 1 of 2: B0", "benchmark 2 of 2: B1"]


def test_a_benchmark_that_was_announced_is_not_announced_again_by_who_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    for since in (1, 2, 3):
        with Follower(tmp_path, said.append) as follower:
            follower.follow([Progress(0, since, min(since, 2) - 1, 2, "B", 0, "save", "begin")])
    assert said == ["benchmark 1 of 2: B", "benchmark 2 of 2: B"]
