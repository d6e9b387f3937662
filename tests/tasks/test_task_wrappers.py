"""The stages as Prefect tasks: names, no caching, and artifacts that hostile text cannot break out of."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.cache_policies import NO_CACHE

import tasks.artifacts
from tasks.artifacts import code_block, escaped, key_of, post_markdown, progress_bar, where_lie
from tasks.build import build
from tasks.cloud.storage import open_folder
from tasks.collect import collect
from tasks.compare import compare
from tasks.failure import LINES, post_failure
from tasks.provision import provision
from tasks.report import report
from tasks.run import percent_done, run_workload
from tasks.targets.types import Progress
from tasks.teardown import teardown
from tasks.upload import upload
from tests.waiting import PATIENCE_S, until

STAGES: dict[str, Any] = {
    "build": build,
    "provision": provision,
    "upload": upload,
    "run": run_workload,
    "collect": collect,
    "compare": compare,
    "report": report,
    "teardown": teardown,
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_named_and_neither_cached_nor_repeated(name: str) -> None:
    task = STAGES[name]
    assert task.name == name
    assert task.cache_policy == NO_CACHE
    assert task.persist_result is False
    assert task.retries == 0


def test_the_attempt_is_in_the_name_from_the_second_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, told in (("1", "build"), ("3", "build (attempt 3)")):
        monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__RUN_COUNT", count)
        assert build.task_run_name() == told


@pytest.mark.parametrize(
    ("words", "key"),
    [(("results", "Quick Start_2"), "results-quick-start-2"), (("a", "Ünïcode/../x"), "a-n-code-x")],
)
def test_keys_hold_only_what_prefect_takes(words: tuple[str, ...], key: str) -> None:
    assert key_of(*words) == key


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "[x](javascript:alert(1))", "# big\n**b**", "`a` | b"]
)
def test_text_is_shown_and_never_obeyed(text: str) -> None:
    shown = escaped(text)
    assert "<" not in shown
    for mark in "`*_{}[]()#|":
        assert shown.count(mark) == shown.count(f"\\{mark}")


@pytest.mark.parametrize("text", ["plain", "```\nout\n```", "a ````` b", "~~~"])
def test_no_text_ends_the_code_block_it_stands_in(text: str) -> None:
    fence, _, rest = code_block(text).partition("text\n")
    assert set(fence) == {"`"}
    assert fence not in text
    assert rest == f"{text}\n{fence}"


def test_an_artifact_that_prefect_does_not_take_is_told_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**artifact: Any) -> None:
        raise httpx.ConnectError("no server")

    monkeypatch.setattr(tasks.artifacts, "create_markdown_artifact", refuse)
    said: list[str] = []
    post_markdown(said.append, "report", "text", "description")
    assert said == ["Prefect's UI lacks the artifact report: ConnectError: no server"]


def test_progress_is_told_no_more_than_once_a_second_and_never_backwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[float, float]] = []
    artifact = uuid4()

    def update(which: UUID, progress: float) -> None:
        assert which == artifact
        told.append((time.monotonic(), progress))

    monkeypatch.setattr(tasks.artifacts, "UPDATE_EVERY_S", 0.2)
    monkeypatch.setattr(tasks.artifacts, "create_progress_artifact", lambda **about: artifact)
    monkeypatch.setattr(tasks.artifacts, "update_progress_artifact", update)
    with progress_bar(lambda text: None, "progress", "suite") as show:
        percent = 0.0
        while len(told) < 4:
            show(percent)
            show(percent / 2)
            percent += 0.01
            time.sleep(0.001)
    # The block waits for the last one, but not for long.
    until(lambda: told[-1][1] >= min(100.0, percent) - 0.02)
    values = [value for _, value in told]
    assert values == sorted(values)
    times = [at for at, _ in told[:-1]]  # the last is told when all is over
    assert all(later - at >= 0.19 for at, later in itertools.pairwise(times))
    assert values[-1] <= min(100.0, percent)


def test_a_server_that_hangs_does_not_hold_the_workload_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.artifacts, "UPDATE_EVERY_S", 0.1)
    answers = threading.Event()

    def hang(**about: str) -> UUID:
        answers.wait(PATIENCE_S)
        return uuid4()

    monkeypatch.setattr(tasks.artifacts, "create_progress_artifact", hang)
    monkeypatch.setattr(tasks.artifacts, "update_progress_artifact", lambda which, progress: None)
    with progress_bar(lambda text: None, "progress", "suite") as show:
        show(50.0)
    tellers = [thread for thread in threading.enumerate() if thread.name == "progress"]
    assert tellers
    answers.set()
    for teller in tellers:
        teller.join()


def test_files_in_a_bucket_are_links_and_files_here_are_paths() -> None:
    assert where_lie(["gs://b-1/runs/r_1/logs/a b.log", "gs://b-1/x"]) == (
        "- [gs://b\\-1/runs/r\\_1/logs/a b\\.log]"
        "(https://console.cloud.google.com/storage/browser/_details/b-1/runs/r_1/logs/a%20b.log)\n"
        "- [gs://b\\-1/x](https://console.cloud.google.com/storage/browser/_details/b-1/x)"
    )
    assert where_lie(["/runs/r/report.html"]) == "```text\n/runs/r/report.html\n```"
    assert where_lie([]) == "```text\nnone\n```"


@pytest.mark.parametrize(
    ("point", "points", "repeat", "repeats", "percent"),
    [(0, 2, 0, 4, 0.0), (0, 2, 2, 4, 25.0), (1, 2, 4, 4, 100.0), (0, 0, 0, 1, 0.0), (1, 2, 9, 4, 100.0)],
)
def test_percent_by_point_and_repeat(
    point: int, points: int, repeat: int, repeats: int, percent: float
) -> None:
    progress = Progress(0, 1, point, points, "b", repeat, "save", "begin")
    assert percent_done(progress, repeats) == percent


def test_the_page_of_a_failure_holds_causes_and_the_last_lines_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages: list[str] = []
    monkeypatch.setattr(
        tasks.artifacts, "create_markdown_artifact", lambda markdown, **about: pages.append(markdown)
    )
    folder = open_folder(str(tmp_path))
    lines = [f"line {number} <b>```" for number in range(LINES + 50)]
    folder.write("logs/attempt-2/worker-0000.log", "\n".join(lines).encode())
    folder.write("logs/worker-0000.log", b"of an attempt before\n")
    folder.write("logs/attempt-2/venv-0000.log", b"how its venv was made\n")
    run: Any = SimpleNamespace(folder=folder, say=lambda text: None, spec=SimpleNamespace(suite_name="Quick"))
    post_failure(run, ["worker 0: *disk* full"])
    (page,) = pages
    assert "worker 0: \\*disk\\* full" in page
    assert lines[49] not in page
    assert all(line in page for line in lines[50:])
    assert "````text\n" in page
    assert "attempt before" not in page and "venv was made" not in page
