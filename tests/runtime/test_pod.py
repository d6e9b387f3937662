"""A pod's container: what it fetches, says and leaves behind; signals, orphans, renewals, and how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.names import SUITE_FILE
from runtime.contract.pod import job_file, stream_file
from runtime.contract.progress import Exited, parse_record
from runtime.pod import _last_word
from runtime.pods.errand import Errand, _lay_out, _new_attempt, seat
from runtime.pods.folder import RunFolder
from runtime.pods.watching import hear
from tests.runtime.pods_here import Pods
from tests.waiting import until

RENDEZVOUS = {"SLICEBENCH_RENDEZVOUS": "js-slice-job-0-0.js:20001"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 0, "js-slice-job-0-0.js:20001")),
        ({"SLICEBENCH_POD_ADDRESS": "10.0.0.7"}, (0, 0, "10.0.0.7:20001")),
        ({"SLICEBENCH_POD_ADDRESS": "fd00::7"}, (0, 0, "[fd00::7]:20001")),
        (
            {"JOB_INDEX": "1", "JOB_COMPLETION_INDEX": "3", "PROCESSES_IN_JOB": "4",
             "SLICEBENCH_POD_ADDRESS": "10.0.0.7"},
            (7, 1, "js-slice-job-0-0.js:20001"),
        ),
        (
            {"JOB_INDEX": "2", "JOB_COMPLETION_INDEX": "1", "PROCESSES_IN_JOB": "4",
             "CONTAINER_INDEX": "1", "SLICEBENCH_CONTAINERS_PER_HOST": "2"},
            (2 * 4 + 2 + 1, 2, "js-slice-job-0-0.js:20001"),
        ),
    ],
)  # fmt: skip
def test_a_container_knows_its_place(environ: dict[str, str], expected: tuple[int, int, str]) -> None:
    found = seat({**RENDEZVOUS, **environ})
    assert (found.worker, found.slice_index, found.rendezvous) == expected


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="JOB_INDEX is 'one'"):
        seat({**RENDEZVOUS, "JOB_INDEX": "one"})
    with pytest.raises(BadInput, match="started by slicebench, in a pod"):
        seat({})


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.wait()
    for pid in made.left():
        os.kill(pid, signal.SIGKILL)


def test_two_pods_work_together_and_leave_all_in_the_runs_folder(pods: Pods) -> None:
    pods.workers = 2
    pods.send().start()
    assert pods.wait() == [0, 0]
    for worker in (0, 1):
        assert pods.last(worker) == Exited(0, "")
        assert pods.says(f"stand-in of worker {worker} from point 0", worker)
        left = (pods.run / stream_file(1, worker)).read_bytes()
        assert left == (pods.folder / f"out{worker}").read_bytes()
        assert (pods.run / f"results/points-a1-w{worker:04d}.jsonl").exists()
    assert not list(pods.folder.glob("slicebench-*"))  # what was fetched goes with the container


def test_each_start_by_the_cluster_itself_is_an_attempt_of_its_own(pods: Pods) -> None:
    go = pods.folder / "go"
    pods.workers, pods.do = 2, {"1.1": f"until:{go}"}
    pods.job = {"again": True, "renewal_file": None}
    pods.send().start()
    until(lambda: all(pods.says(f"stand-in of worker {worker}", worker) for worker in (0, 1)))
    for process in pods.started:
        process.terminate()
    assert set(pods.wait()) <= {3, 130}

    def left() -> dict[str, bytes]:
        files = [*pods.run.glob("results/*"), *pods.run.glob("pods/a*/stream*")]
        return {str(file.relative_to(pods.run)): file.read_bytes() for file in files}

    first = left()
    streams = {stream_file(1, 0), stream_file(1, 1)}
    assert {*streams, "results/points-a1-w0000.jsonl", "results/points-a1-w0001.jsonl"} <= first.keys()
    go.touch()
    assert pods.start().wait() == [0, 0]
    second = left()
    for worker in (0, 1):
        assert f"results/samples-a2-w{worker:04d}.parquet" in second
        assert second[stream_file(2, worker)] == (pods.folder / f"out{worker}").read_bytes()
        told = second[f"results/points-a2-w{worker:04d}.jsonl"].splitlines()
        assert [json.loads(line)["attempt"] for line in told] == [2, 2]
    assert first.items() <= second.items()

    # One that never hears which attempt it is leaves nothing: it could only be in the place of another.
    pods.start(only=(1,))
    until(lambda: list(pods.folder.glob("slicebench-*/scratch/stream.jsonl")))
    pods.started[0].terminate()
    assert pods.wait() == [130]
    assert left() == second


def test_a_signal_that_found_the_supervisor_not_yet_listening_is_no_death_of_its_own(tmp_path: Path) -> None:
    errand = Errand(tmp_path, RunFolder(str(tmp_path)), attempt=1, worker=0, renewal=None)
    assert _last_word(errand, -signal.SIGTERM, told=signal.SIGTERM) == 130
    record = parse_record(errand.stream.read_bytes())
    assert record.body == Exited(130, "told to stop (SIGTERM)")


def test_a_start_whose_upload_lost_its_reply_takes_no_second_number(tmp_path: Path) -> None:
    class Lossy(RunFolder):
        def create(self, name: str, content: bytes) -> bool:
            super().create(name, content)
            return False

    assert [_new_attempt(Lossy(str(tmp_path)), 1) for _ in range(2)] == [1, 2]


def test_its_exit_code_is_the_supervisors(pods: Pods) -> None:
    pods.do = {"0.1": "fail:leaf a/b differs"}
    pods.send().start()
    assert pods.wait() == [1]
    assert "leaf a/b differs" in pods.last().cause


def test_a_signal_reaches_the_worker_at_once(pods: Pods) -> None:
    pods.do = {"0.0": "leave_at_term"}
    pods.send().start()
    until(lambda: pods.says("waiting for SIGTERM"))
    pods.started[0].terminate()
    assert pods.wait() == [130]
    assert pods.last() == Exited(130, "told to stop (SIGTERM)")
    assert not pods.left()


def test_a_signal_before_anything_began_ends_it(pods: Pods) -> None:
    pods.send()
    os.mkfifo(pods.folder / "fifo")
    (pods.run / SUITE_FILE).unlink()
    (pods.run / SUITE_FILE).symlink_to(pods.folder / "fifo")  # reading it does not come back
    pods.start()
    until(lambda: list(pods.folder.glob("slicebench-*")))
    pods.started[0].terminate()
    assert pods.wait() == [130]
    assert pods.last() == Exited(130, "told to stop before anything began")


def test_a_supervisor_that_was_killed_is_spoken_for(pods: Pods) -> None:
    pods.do = {"0.0": "hang"}
    pods.send().start()
    until(lambda: pods.says("stand-in of worker 0"))
    children = Path(f"/proc/{pods.started[0].pid}/task/{pods.started[0].pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    assert pods.wait() == [128 + signal.SIGKILL]
    assert pods.last() == Exited(3, "the supervisor was killed by SIGKILL, without a last word")
    assert (pods.run / stream_file(1, 0)).read_bytes() == (pods.folder / "out0").read_bytes()
    until(lambda: not pods.left())


def test_it_ends_when_the_run_does_not_renew(pods: Pods) -> None:
    pods.do = {"0.0": "hang"}
    pods.job = {"lease_s": 1.0}
    pods.send().start()
    assert pods.wait() == [3]
    assert "the lease was not renewed for 1 s" in pods.last().cause


def test_renewals_are_heard_through_the_runs_folder(tmp_path: Path) -> None:
    touched, ended = tmp_path / "touched", threading.Event()
    touched.touch()
    os.utime(touched, (1, 1))
    thread = threading.Thread(target=hear, args=(RunFolder(str(tmp_path)), "renewed", touched, 0.01, ended))
    thread.start()
    try:
        (tmp_path / "renewed").write_text("1")
        until(lambda: touched.stat().st_mtime > 1)
        os.utime(touched, (1, 1))
        ended.wait(0.1)
        assert touched.stat().st_mtime == 1  # it has not changed
        (tmp_path / "renewed").write_text("2")
        until(lambda: touched.stat().st_mtime > 1)
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda run: (run / SUITE_FILE).unlink(), "/suite.yaml is not there: was the run's folder deleted?"),
        (lambda run: (run / job_file(1)).write_text("[]"), "is no job"),
        (
            lambda run: next((run / "pods").glob("code-*")).write_bytes(b"other"),
            "is not what was written there",
        ),
    ],
)
def test_what_it_cannot_fetch_is_its_last_word(pods: Pods, spoil: Any, cause: str) -> None:
    pods.send()
    spoil(pods.run)
    pods.start()
    assert pods.wait()[0] in (2, 3)
    assert cause in pods.last().cause
    assert pods.says(cause)


def test_the_token_is_the_supervisors_alone(pods: Pods) -> None:
    pods.do = {"0.0": "leak:SLICEBENCH_TOKEN"}
    pods.send().start()
    assert pods.wait() == [1]
    assert "KeyError" in pods.last().cause or "exited with code" in pods.last().cause
    assert not pods.says("of-the-secret")


@pytest.mark.parametrize(
    ("sent", "is_own"),
    [
        ({"runtime/part/a.py": "A = 1\n"}, True),
        ({"runtime/part/a.py": "A = 1\n", "user.py": "B = 1\n"}, True),
        ({"runtime/part/a.py": "A = 2\n"}, False),
        ({"runtime/part/a.py": "A = 1\n", "runtime/new.py": ""}, False),
        ({"runtime/part/a.py": "A = 1\n", "runtime/part/b/c.py": ""}, False),
        ({"user.py": "B = 1\n"}, False),
    ],
)
def test_the_images_own_code_runs_where_it_is_what_was_sent(
    tmp_path: Path, sent: dict[str, str], is_own: bool
) -> None:
    own = tmp_path / "image" / "runtime"
    (own / "part").mkdir(parents=True)
    (own / "part" / "a.py").write_text("A = 1\n")
    (own / "part" / "b").touch()
    (own / "more.py").touch()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in sent.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    into = tmp_path / "code"
    _lay_out(packed.getvalue(), into, own)
    assert (into / "runtime").is_symlink() == is_own
    assert {name: (into / name).read_text() for name in sent} == sent
    assert (own / "part" / "a.py").read_text() == "A = 1\n"
