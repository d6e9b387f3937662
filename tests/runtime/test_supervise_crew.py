"""Several supervisors: they meet, end a failed session together, name the true cause, and go on at the next point."""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import replace
from typing import Any

import pytest

from runtime.contract.job import Deadlines
from runtime.contract.progress import Log, PointPhase, Stacks, Started, Step, WorkerExited
from runtime.supervision.processes import look
from tests.runtime.supervised import Crew, Make
from tests.waiting import PATIENCE_S, until

ECHO = "INTERNAL: Gloo AllGather failed: Connection closed by peer [127.0.0.1]:5"
ABORT = "Terminating process because the JAX distributed service detected fatal errors: another task died"


def began(crew: Crew, point: int) -> bool:
    """Whether every worker is in a point."""
    return all(
        any(body.point == point and body.phase == "begin" for body in crew.bodies(PointPhase, worker))
        for worker in range(crew.workers)
    )


def test_workers_meet_and_end_together(make: Make) -> None:
    crew = make(workers=3).start()
    assert crew.wait() == [0, 0, 0]
    assert all(crew.exited(worker).cause == "" for worker in range(3))
    crew.nothing_left()


# What workers 0 and 1 do in one point each, and what that point is said to have failed of.
FAILURES = [
    ("wait", "fail:leaf a/b differs", "worker 1: leaf a/b differs"),
    (f"wait_and_fail:{ECHO}", "fail:leaf a/b differs", "worker 1: leaf a/b differs"),
    (f"fail:{ECHO}", "wait_and_fail:ValueError", "worker 1: ValueError"),
    ("wait", "kill:SIGKILL", "worker 1 was killed by SIGKILL while in save"),
    (f"fail:{ECHO}", "kill:SIGKILL", "worker 1 was killed by SIGKILL while in save"),
    (
        "crash",
        f"say_and_abort:{ABORT}",
        "worker 0 exited with code 7 in save: something went wrong in C++",
    ),
]


def test_one_failure_is_one_failure_with_its_true_cause(make: Make) -> None:
    """Each in a point of its own of one crew, with a good point before and after it."""
    do = {f"{w}.{2 * n + 1}": does[w] for n, does in enumerate(FAILURES) for w in range(2)}
    failed = range(1, 2 * len(FAILURES), 2)
    crew = make(workers=2, points=2 * len(FAILURES) + 1, do=do).start()
    assert crew.wait() == [1, 1]
    for worker in range(2):
        first = f"benchmark 2 of {crew.points} (Fake) failed: {FAILURES[0][2]} (and {len(FAILURES) - 1} more)"
        assert crew.exited(worker).cause == first
        assert [body.first_point for body in crew.bodies(Started, worker)] == [0, *(n + 1 for n in failed)]
        told = [crew.points_file(worker)[point][0] for point in range(crew.points)]
        assert told == ["failed" if point in failed else "passed" for point in range(crew.points)]
    assert [crew.points_file(0)[point][1] for point in failed] == [cause for *_, cause in FAILURES]
    for point, (*_, cause) in zip(failed, FAILURES, strict=True):
        assert cause.endswith(crew.points_file(1)[point][1])
    crew.nothing_left()


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM"])
def test_workers_are_disrupted_in_each_repeat_and_go_on_at_the_same_point(
    make: Make, signal_name: str
) -> None:
    disrupt = {"1": {"worker": 1, "at_step": 3, "signal": signal_name}}
    # Three sessions, of which each may begin slowly: nothing here is to run out of time.
    patient = Deadlines(init_s=120.0, operation_s=120.0)
    crew = make(workers=2, disrupt=disrupt, job={"deadlines": patient}).start()
    assert crew.wait() == [0, 0], crew.exited().cause
    for worker in range(2):
        assert [body.first_point for body in crew.bodies(Started, worker)] == [0, 1, 1]
        assert {status for status, _ in crew.points_file(worker).values()} == {"passed"}
        resumed = [step for step in crew.bodies(Step, worker) if step.state == "resumed"]
        assert [step.repeat for step in resumed] == [0, 1]
        assert all(step.step >= 3 for step in resumed)
    assert any(body.cause.startswith("disrupted by") for body in crew.bodies(WorkerExited, 1))
    told = {worker: restarts(crew, worker) for worker in range(2)}
    assert all(restart["ended_at"] >= restart["killed_at"] for restart in told[1])
    assert all(restart["killed_at"] is None for restart in told[0]), "it was not struck"
    assert crew.says("benchmark 2 of 3 (Fake): disrupted in repeat 2: ")
    crew.nothing_left()


def test_a_worker_that_dies_by_itself_in_a_disrupted_point_fails_it(make: Make) -> None:
    crew = make(do={"0.1": "kill:SIGKILL"}, disrupt={"1": {"after_s": 600.0}}).start()
    assert crew.wait() == [1]
    assert crew.points_file()[1] == ("failed", "worker 0 was killed by SIGKILL while in save")
    assert [body.first_point for body in crew.bodies(Started)] == [0, 2]


def restarts(crew: Crew, worker: int) -> list[dict[str, Any]]:
    """Returns what each restarted worker was told."""
    head = f"restart of worker {worker}: "
    said = [body.text for body in crew.bodies(Log, worker)]
    return [json.loads(text.removeprefix(head)) for text in said if text.startswith(head)]


def test_only_the_points_that_are_asked_for_run_and_are_written_down(make: Make) -> None:
    do = {"1.0": "fail:never run", "1.1": "kill:SIGKILL", "0.1": "wait"}
    crew = make(workers=2, points=5, do=do, job={"points": (1, 3)}).start()
    assert crew.wait() == [1, 1]
    assert [body.first_point for body in crew.bodies(Started)] == [1, 3]
    for worker in range(2):
        points = crew.points_file(worker)
        assert {point: status for point, (status, _) in points.items()} == {1: "failed", 3: "passed"}
    crew.nothing_left()


def test_of_points_that_are_never_reached_only_those_asked_for_are_told(make: Make) -> None:
    crew = make(workers=2, points=5, do={"0.1": "wait", "1.1": "wait"}, job={"points": (1, 3)}).start()
    until(lambda: began(crew, 1))
    crew.started[0].terminate()
    assert crew.wait() == [130, 130]
    assert {point: status for point, (status, _) in crew.points_file(1).items()} == {
        1: "not_run",
        3: "not_run",
    }


def test_a_failure_that_all_agree_on_does_not_end_the_session(make: Make) -> None:
    do = {f"{worker}.1": "fail_and_go_on:no such file" for worker in range(2)}
    crew = make(workers=2, do=do).start()
    assert crew.wait() == [1, 1]
    assert len(crew.bodies(Started)) == 1
    assert (
        crew.exited().cause == "benchmark 2 of 3 (Fake) failed: worker 0: no such file"
        or "worker 1" in crew.exited().cause
    )


def test_a_hung_worker_is_named_and_its_neighbour_is_not(make: Make) -> None:
    crew = make(
        workers=2, do={"0.1": "wait", "1.1": "hang"}, job={"deadlines": Deadlines(operation_s=3.0)}
    ).start()
    assert crew.wait() == [1, 1]
    cause = "operation save exceeded 3 s on worker 1; worker 0 waited"
    assert crew.exited().cause == f"benchmark 2 of 3 (Fake) failed: {cause}"
    assert crew.points_file(0)[1] == crew.points_file(1)[1] == ("failed", cause)
    assert "in wait_at_barrier" in crew.bodies(Stacks, 0)[0].text
    assert "in misbehave" in crew.bodies(Stacks, 1)[0].text


def test_a_worker_that_never_reached_the_operation_is_named(make: Make) -> None:
    deadlines = Deadlines(operation_s=3.0)
    crew = make(workers=2, do={"0.1": "hang", "1.0": "hang"}, job={"deadlines": deadlines}).start()
    assert crew.wait() == [1, 1]
    assert crew.exited().cause.startswith(
        "benchmark 1 of 3 (Fake) failed: operation save exceeded 3 s on worker 1; worker 0 waited"
    )


def test_a_stopped_worker_is_the_cause_of_its_neighbours_abort(make: Make) -> None:
    crew = make(workers=2, do={"0.1": "stop", "1.1": f"say_and_abort:{ABORT}"}).start()
    assert crew.wait() == [1, 1]
    assert crew.exited().cause == "benchmark 2 of 3 (Fake) failed: worker 0 was stopped by SIGSTOP in save"


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_supervisor_ends_everything(make: Make, victim: int) -> None:
    crew = make(workers=3, do={f"{worker}.1": "wait" for worker in range(3)}).start()
    until(lambda: began(crew, 1))
    crew.started[victim].kill()
    codes = crew.wait()
    assert codes[victim] == -signal.SIGKILL
    for worker in {0, 1, 2} - {victim}:
        assert codes[worker] == 3
        cause = crew.exited(worker).cause
        assert cause.startswith(f"lost the supervisor of worker {victim}")
        assert "in benchmark 2 of 3 (Fake)" in cause.replace("save of ", "")
        assert crew.points_file(worker)[1] == ("not_run", cause)
        assert crew.points_file(worker)[2][0] == "not_run"
    crew.nothing_left()


@pytest.mark.parametrize("told", [0, 1])
def test_one_told_to_stop_stops_all(make: Make, told: int) -> None:
    crew = make(workers=2, do={f"{worker}.1": "wait" for worker in range(2)}).start()
    until(lambda: began(crew, 1))
    crew.started[told].terminate()
    assert crew.wait() == [130, 130]
    crew.nothing_left()


def test_a_worker_killed_from_outside_is_told(make: Make) -> None:
    crew = make(workers=2, do={f"{worker}.1": "wait" for worker in range(2)}).start()
    until(lambda: began(crew, 1))
    os.kill(crew.bodies(Started, 1)[0].pid, signal.SIGKILL)
    assert crew.wait() == [1, 1]
    assert "worker 1 was killed by SIGKILL while in save" in crew.exited().cause
    assert look(crew.bodies(Started, 0)[0].pid) is None


def test_a_worker_that_never_arrives_is_named(make: Make) -> None:
    crew = make(workers=3)
    first, _, third = crew.jobs()
    crew.start_one(third)
    until(crew.path(2).exists)
    crew.start_one(replace(first, deadlines=Deadlines(init_s=2.0)))
    assert crew.wait() == [3, 3]
    assert crew.exited(0).cause == crew.exited(2).cause == "worker 1 did not arrive within 2 s"


def test_without_supervisor_0_the_others_give_up(make: Make) -> None:
    crew = make(workers=2, job={"deadlines": Deadlines(init_s=1.0)}).start(only=(1,))
    assert crew.wait() == [3]
    assert "supervisor 0 did not answer" in crew.exited(1).cause


def test_a_supervisor_that_waits_for_the_others_can_be_stopped(make: Make) -> None:
    crew = make(workers=2).start(only=(1,))
    until(lambda: crew.path(1).exists() and len(crew.left()) > 1)
    crew.started[0].terminate()
    assert crew.wait() == [130]
    crew.nothing_left()


def test_who_does_not_know_the_token_is_not_let_in(make: Make) -> None:
    crew = make(workers=2)
    first, second = crew.jobs()
    waiting = crew.start_one(first)
    until(lambda: listens(first.rendezvous))
    stranger = replace(second, token="another", deadlines=Deadlines(init_s=0.5))
    assert crew.start_one(stranger).wait(PATIENCE_S) == 3
    assert "another token" in crew.exited(1).cause
    assert waiting.poll() is None
    assert not crew.bodies(Started), "it still waits for worker 1"
    waiting.terminate()
    assert waiting.wait(PATIENCE_S) == 130


def listens(address: str) -> socket.socket | None:
    host, port = address.split(":")
    try:
        return socket.create_connection((host, int(port)), 5)
    except OSError:
        return None


def test_strangers_at_the_rendezvous_do_no_harm(make: Make) -> None:
    crew = make(workers=2)
    first, second = crew.jobs()
    crew.start_one(first)
    silent = until(lambda: listens(first.rendezvous))
    loud = until(lambda: listens(first.rendezvous))
    loud.sendall(b"GET / HTTP/1.1\r\n\r\n")
    hostile = until(lambda: listens(first.rendezvous))
    hostile.sendall(json.dumps({"worker": 1, "challenge": "x", "proof": "y"}).encode() + b"\n")
    crew.start_one(second)
    assert crew.wait() == [0, 0]
    for sock in (silent, loud, hostile):
        assert b"secret" not in sock.recv(4096)
        sock.close()


def test_a_taken_port_is_told(make: Make) -> None:
    crew = make(workers=2, job={"deadlines": Deadlines(init_s=2.0)})
    first, _ = crew.jobs()
    host, port = first.rendezvous.split(":")
    with socket.create_server((host, int(port))):
        crew.start_one(first)
        assert crew.wait() == [3]
    assert first.rendezvous in crew.exited(0).cause
    assert "another program uses it" in crew.exited(0).cause


def test_the_token_is_in_no_stream(make: Make) -> None:
    crew = make(workers=2, job={"token": "very-secret-token"}).start()
    assert crew.wait() == [0, 0]
    for worker in range(2):
        assert b"very-secret-token" not in crew.path(worker).read_bytes()
        assert crew.bodies(Log, worker)
