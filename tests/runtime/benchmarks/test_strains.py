"""What strains a save is measured against known truths: steps of a known time, a leak of a known size."""

from __future__ import annotations

import socket
import statistics
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jax
import pytest
from etils import epath

from runtime import folders
from runtime.benchmarks import garbage_collection, interference, memory_growth
from runtime.contract.suite_reader import check_text
from runtime.faulty_store import FaultyStore
from runtime.training.model import Trainer

RunSuite = Callable[..., Any]
OURS = "runtime.benchmarks."
MIB = 1 << 20


def passed(outcome: Any) -> Any:
    assert [(each.status, each.cause) for each in outcome.results] == [("passed", "")] * len(outcome.results)
    return outcome


def names(outcome: Any, point: int = 0) -> list[str]:
    return [name for name, _ in outcome.operations(point)]


class Clock:
    """Stands for the module time: only what is said to take time does."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_steps_beside_a_save_are_told_as_much_slower_as_they_are(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    clock, saving = Clock(), threading.Event()
    real = Trainer.step

    def step(self: Any, state: Any) -> Any:
        clock.sleep(0.010 * (factor if saving.is_set() else 1.0))
        return real(self, state)

    class Saves:
        """A save that is complete two steps after it began."""

        def __init__(self, manager: Any, number: int, block: Any) -> None:
            saving.set()
            self._until = clock.now + 0.019 * factor

        @property
        def goes_on(self) -> bool:
            if clock.now > self._until:
                saving.clear()
            return saving.is_set()

    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(interference, "time", clock)
    monkeypatch.setattr("runtime.training.checkpoints.Saving", Saves)
    options = "{rounds: 2, steps: 4, layers: 1, width: 8, batch: 1}"
    outcome = passed(run_suite(OURS + "interference.Interference", options))
    assert outcome.value("train_step_meanwhile", "slowdown") == pytest.approx(factor, rel=0.05)
    told = names(outcome)
    assert [told.count(name) for name in ("train_step", "train_step_meanwhile", "save")] == [12, 4, 2]


def test_steps_of_which_none_met_a_save_are_a_failure(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference.Saving, "goes_on", False)
    options = "{rounds: 1, steps: 1, layers: 1, width: 8, batch: 1}"
    (result,) = run_suite(OURS + "interference.Interference", options).results
    assert result.status == "failed" and "no step began while a save went on" in result.cause


def test_many_arrays_are_saved_and_come_back(run_suite: RunSuite) -> None:
    options = "{arrays: 30, elements: 16, use_ocdbt: [true, false]}"
    outcome = passed(run_suite(OURS + "many_arrays.ManyArrays", options))
    assert names(outcome) == names(outcome, 1) == ["save", "wait_until_finished", "restore"]
    assert {each.value for each in outcome.samples if each.metric == "payload_bytes"} == {30 * 16 * 4}
    files = [each.value for each in outcome.samples if each.metric == "files"]
    assert files[1] > 30 > files[0], "without OCDBT each array has a folder of its own"


def test_a_leak_is_told_as_large_as_it_is(run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytearray] = []
    real = memory_growth.MemoryGrowth._cycle

    def leaks(self: Any, context: Any, number: int) -> None:
        real(self, context, number)
        kept.append(bytearray(b"x") * (16 * MIB))

    monkeypatch.setattr(memory_growth.MemoryGrowth, "_cycle", leaks)
    outcome = passed(run_suite(OURS + "memory_growth.MemoryGrowth", "{cycles: 5, settle: 3}"))
    assert outcome.value("cycle", "growth_bytes_per_cycle") == pytest.approx(16 * MIB, rel=0.05)
    assert names(outcome).count("cycle") == 8
    assert len([each for each in outcome.samples if each.metric == "rss_after_bytes"]) == 5


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 1, 1], 0), ([0, 5, 10, 15], 5), ([0, 5, 10, 900, 20, 25, 30], 5), ([3, 2, 1], -1)],
)
def test_one_value_that_stands_out_does_not_bend_a_slope(values: list[float], expected: float) -> None:
    assert memory_growth.slope(values) == expected


@pytest.mark.parametrize("background", ["true", "false"])
def test_what_is_given_up_is_gone(run_suite: RunSuite, background: str) -> None:
    options = f"{{steps: 2, max_to_keep: 2, enable_background_delete: {background}}}"
    outcome = passed(run_suite(OURS + "garbage_collection.GarbageCollection", options))
    each = ["save", "wait_until_finished", "save_and_delete", "wait_until_finished_and_delete"]
    assert names(outcome) == [*each, *each, "close", "restore"]
    seconds = {
        kind: statistics.median(_together(outcome, kind))
        for kind in (garbage_collection.KEEPING, garbage_collection.DELETING)
    }
    told = outcome.value("save_and_delete", "deletion_s")
    assert told == pytest.approx(seconds[garbage_collection.DELETING] - seconds[garbage_collection.KEEPING])


def _together(outcome: Any, kind: str) -> list[float]:
    parts: dict[int, float] = {}
    for each in outcome.samples:
        if each.metric == "time_s" and each.operation in (f"save{kind}", f"wait_until_finished{kind}"):
            parts[each.occurrence] = parts.get(each.occurrence, 0.0) + each.value
    return list(parts.values())


COPIES = """
suite_name: copies
mesh_config: {mesh_axes: [data], ici_parallelism: {data: 8}}
checkpoint_config: {spec: {w: {dtype: float32, shape: [48, 3]}}}
benchmarks: [{generator: runtime.benchmarks.first_save.FirstSave, options: {saves: 2}}]
"""
"""An array of which each device has a copy, and saves a part: cutting that takes a program."""


def test_the_first_save_compiles_and_the_others_do_not(run_text: Callable[[str], Any]) -> None:
    outcome = passed(run_text(COPIES))
    assert names(outcome) == ["first_save", "save", "save", "first_restore", "restore"]
    compiled = {
        (each.operation, each.occurrence): each.value
        for each in outcome.samples
        if each.metric == "jax/core/compile/backend_compile_count"
    }
    assert compiled["first_save", 0] > 0
    assert compiled["save", 0] == compiled["save", 1] == 0


def test_programs_that_are_on_disk_are_fetched_from_there(
    run_text: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[str]] = []
    counted = folders.contents

    def contents(place: epath.Path) -> tuple[int, int]:
        left.append(sorted(one.name for one in place.iterdir()))
        return counted(place)

    monkeypatch.setattr(folders, "contents", contents)
    before = {name: value for name, value in jax.config.values.items() if "cache" in name}
    outcome = passed(run_text(COPIES.replace("saves: 2", "saves: 1, cached_on_disk: [false, true]")))
    hits = {
        each.point: each.value
        for each in outcome.samples
        if (each.operation, each.metric) == ("first_save", "jax/compilation_cache/cache_hits_count")
    }
    assert hits.keys() == {1} and hits[1] > 0
    assert {name: value for name, value in jax.config.values.items() if "cache" in name} == before
    # How many files a checkpoint has is up to TensorStore, which gathers what comes at once.
    assert left == [["0", "1"]] * 2, "the cache is no part of the checkpoints"


def test_faults_of_storage_need_a_bucket(run_suite: RunSuite) -> None:
    (result,) = run_suite(OURS + "storage_faults.StorageFaults", "{latency_s: 1}").results
    assert (result.status, result.cause) == ("not_run", "it needs an output in a bucket: gs://…")


@pytest.mark.parametrize(
    ("generator", "options", "says"),
    [
        ("storage_faults.StorageFaults", "{}", "fraction and latency_s are both zero"),
        ("storage_faults.StorageFaults", "{fraction: 0.9}", "fraction must be from 0 to 0.5"),
        ("storage_faults.StorageFaults", "{fraction: 0.1, status: 404}", "such as 429 or 503, not 404"),
        ("memory_growth.MemoryGrowth", "{cycles: 2}", "cycles must be 3 or more"),
        ("many_arrays.ManyArrays", "{arrays: 0}", "arrays must be positive"),
        ("garbage_collection.GarbageCollection", "{max_to_keep: 0}", "max_to_keep must be positive"),
        ("slow_worker.SlowWorker", "{late_s: 0}", "late_s must be positive"),
        ("interference.Interference", "{step_s: -1}", "step_s must not be negative"),
        ("interference.Interference", "{step_s: .nan}", "step_s must be a finite number"),
        ("slow_worker.SlowWorker", "{late_s: .inf}", "late_s must be a finite number"),
        ("first_save.FirstSave", "{saves: 0}", "saves must be positive"),
    ],
)
def test_options_that_make_no_sense_are_refused(generator: str, options: str, says: str) -> None:
    spec = "checkpoint_config: {spec: {w: {dtype: float32, shape: [8]}}}"
    text = f"suite_name: s\n{spec}\nbenchmarks: [{{generator: {OURS}{generator}, options: {options}}}]\n"
    assert any(says in str(problem) for problem in check_text(text, "s.yaml"))


@pytest.fixture
def upstream() -> Iterator[str]:
    class Echo(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("X-Kind", self.headers.get("X-Kind", "none"))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def ask(url: str) -> tuple[int, bytes, str | None]:
    request = urllib.request.Request(f"{url}/b/o?x=1", b"body", {"X-Kind": "k"}, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), answer.headers["X-Kind"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), None


def test_a_front_lets_pass_what_it_does_not_refuse(upstream: str) -> None:
    with FaultyStore(upstream, status=429, fraction=0.25, latency_s=0.0) as store:
        answers = [ask(store.url) for _ in range(12)]
        assert [status for status, *_ in answers] == [200, 200, 200, 429] * 3
        assert answers[0] == (200, b"body", "k")
        assert (store.requests, store.faults) == (12, 3)
        store.disturbs = False
        assert [ask(store.url)[0] for _ in range(4)] == [200] * 4
        assert (store.requests, store.faults) == (12, 3)


def test_what_a_front_answers_goes_in_one_piece(upstream: str) -> None:
    """In two, the second would wait until the client has acknowledged the first: 40 ms that no store takes."""
    with FaultyStore(upstream, status=429, fraction=0.0, latency_s=0.0) as store:
        address = urllib.parse.urlsplit(store.url)
        with socket.create_connection((str(address.hostname), address.port or 0)) as client:
            for _ in range(3):
                client.sendall(b"PUT /b/o HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
                assert client.recv(65536).endswith(b"\r\n\r\nbody")


def test_a_front_lets_requests_wait(upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("runtime.faulty_store.time.sleep", waited.append)
    with FaultyStore(upstream, status=503, fraction=0.0, latency_s=0.25) as store:
        assert ask(store.url)[0] == 200
    assert 0.25 in waited


def test_a_store_that_does_not_answer_is_told(upstream: str) -> None:
    with FaultyStore("http://127.0.0.1:9", status=503, fraction=0.0, latency_s=0.0) as store:
        status, body, _ = ask(store.url)
    assert status == 502 and b"no answer from 127.0.0.1:9" in body
