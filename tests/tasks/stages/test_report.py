"""The report is one page that loads nothing, shows every sample, and is not taken over by what it shows."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError, Problem
from tasks.stages.collect import collect
from tasks.stages.compare import compare
from tasks.stages.context import Run
from tasks.stages.report import report, report_folder
from tests.tasks.history.making import MIB, make_point, make_result, make_run, make_samples, write_parts

HOSTILE = "<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """Counts what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self._chip = False
        self._chips: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._chip = tag == "span" and any(
            name == "class" and "chip" in (value or "") for name, value in attrs
        )
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._chip:
            self._chips.append(data)
            self._chip = False

    def chips(self) -> list[str]:
        """Returns what the coloured chips say, in order."""
        return self._chips

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of_class(self, tag: str, word: str) -> int:
        return sum(
            t == tag and name == "class" and word in value.split() for t, name, value in self.attributes
        )


def finished(output: Path, run_id: str = "run-1", started_at: float = 1000.0) -> Run:
    """Leaves a run of two workers: three saves and restores, the first of each a warm-up."""
    run = make_run(output, run_id=run_id)
    asked = {"run_id": run_id, "started_at": started_at, "warmups": 1}
    samples = [
        *make_samples([[9.0, 1.0, 1.2], [9.5, 1.1, 1.1]], **asked),
        *make_samples([[3 * MIB] * 3] * 2, metric="peak_rss_over_start_bytes", unit="bytes", **asked),
        *make_samples([[2 * MIB] * 3] * 2, metric="payload_bytes", unit="bytes", **asked),
        *make_samples([[0.5, 0.4, 0.6], [0.5, 0.4, 0.5]], operation="wait_until_finished", **asked),
        *make_samples([[0.2, 0.1, 0.1], [0.2, 0.3, 0.1]], operation="restore", **asked),
    ]
    write_parts(run.folder, samples, [make_result(0, run_id=run_id), make_result(1, run_id=run_id)])
    collect(run)
    compare(run)
    return run


def read(run: Run) -> Page:
    return Page(Path(report(run)).read_text())


def test_a_page_loads_nothing_from_anywhere(tmp_path: Path) -> None:
    run = finished(tmp_path)
    page = read(run)
    loading = {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
        "base",
        "form",
        "image",
        "use",
    }
    assert not loading & set(page.tags)
    assert not [
        value for _, name, value in page.attributes if name in ("src", "srcset") or name.startswith("on")
    ]
    links = [value for tag, name, value in page.attributes if name == "href"]
    assert links and all(not re.match(r"[a-z]+:|//", link, re.IGNORECASE) for link in links)
    assert "url(" not in page.text and "@import" not in page.text


def test_every_sample_of_every_operation_is_drawn(tmp_path: Path) -> None:
    page = read(finished(tmp_path))
    # 3 operations of 3 repeats on 2 workers, and one dot per worker and operation among the stragglers.
    dots = page.of_class("circle", "dot") + page.of_class("path", "dot")
    legend = 4
    assert dots == 3 * 3 * 2 + 3 * 2 + legend
    assert page.of_class("circle", "hollow") + page.of_class("path", "hollow") == 3 * 2 + 2
    assert "repeat 1, warm-up, worker 1: 9.50 s" in page.text


def test_the_answer_stands_on_top_in_one_sentence(tmp_path: Path) -> None:
    text = read(finished(tmp_path)).text
    assert (
        "The benchmark passed: a save stopped training for 1.15 s and a restore took 200 ms (medians)."
        in text
    )
    assert "NO_BASELINE There is no earlier run to compare with." in text
    assert "1.15 s + 500 ms" in text
    assert "3.00 MiB · 1.50×" in text
    assert "with 50 % only (95 % takes six repeats)" in text
    assert "jax 0.10.2" in text and "Imagined CPU" in text


def test_what_the_target_could_not_run_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    unfit = Problem("warning", None, "2 of 3 benchmarks left out (a, b)", "mesh x 8 takes 8 devices")
    run = dataclasses.replace(run, spec=dataclasses.replace(run.spec, left_out=[unfit]))
    write_parts(run.folder, make_samples([[1.0], [1.0]]), [make_result(0), make_result(1)])
    collect(run)
    text = read(run).text
    assert "2 of 3 benchmarks left out (a, b): mesh x 8 takes 8 devices" in text


def test_the_previous_run_is_compared(tmp_path: Path) -> None:
    finished(tmp_path)
    text = read(finished(tmp_path, "run-2", 5000.0)).text
    assert "The previous run is run-1." in text
    assert "within one run" in text


def test_what_failed_is_told_first_with_the_end_of_its_log(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    bad = make_result(1, status="failed", cause="restore: leaf 'a' differs")
    write_parts(run.folder, make_samples([[1.0], [1.0]]), [make_result(0), bad])
    run.folder.write("logs/worker-0001.log", b"first\n" * 100 + b"Thread 7: waiting in barrier\n")
    collect(run)
    compare(run)
    text = read(run).text
    assert text.index("leaf 'a' differs") < text.index("Results")
    assert "Thread 7: waiting in barrier" in text
    assert text.count("first ") < 100


def test_the_worker_that_the_cause_names_is_heard_around_its_point(tmp_path: Path) -> None:
    run = make_run(tmp_path, points=[make_point(0), make_point(1, "other")])
    cause = "worker 1 was killed by SIGKILL while in save"
    results = [
        make_result(worker, point=point, benchmark=name, status=status, cause=why, blamed=1 if why else None)  # type: ignore[arg-type]
        for worker in (0, 1)
        for point, name, status, why in ((0, "tiny", "failed", cause), (1, "other", "passed", ""))
    ]
    write_parts(run.folder, make_samples([[1.0], [1.0]]), results)
    for worker in (0, 1):
        sessions = [
            f"supervisor: session {point + 1} started at benchmark {point + 1} (pid 9)\nworker {worker} at {point}\n"
            for point in (0, 1)
        ]
        run.folder.write(f"logs/worker-000{worker}.log", "".join(sessions).encode())
    collect(run)
    compare(run)
    text = read(run).text
    assert f": FAILED {cause}" in text
    assert "What worker 1 said" in text
    assert "worker 1 at 0" in text and "worker 1 at 1" not in text and "worker 0 at" not in text


def test_missing_results_are_told(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, make_samples([[1.0]]), [make_result(0)])
    collect(run)
    compare(run)
    text = read(run).text
    assert "Results are incomplete" in text
    assert "worker 1 delivered no results in attempt 1" in text


def test_nothing_measured_still_makes_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    collect(run)
    compare(run)
    text = read(run).text
    assert "The benchmark was not run." in text
    assert "Nothing was timed." in text
    assert "the true median" not in text.partition("How to read this")[0]


def test_a_benchmark_that_failed_reads_failed_and_the_run_says_how_many(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1, points=[make_point(0), make_point(1, "other")])
    bad = make_result(0, point=1, benchmark="other", status="failed", cause="boom")
    samples = [*make_samples([[1.0, 2.0]]), *make_samples([[3.0]], point=1, benchmark="other")]
    write_parts(run.folder, samples, [make_result(0), bad])
    collect(run)
    compare(run)
    page = read(run)
    assert (
        "1 of 2 benchmarks failed. Of the one that passed, a save stopped training for 1.50 s (" in page.text
    )
    results, _, samples_part = page.text.partition("Every sample")
    assert "3.00 s" not in results, "what failed is no result"
    assert "3.00 s" in samples_part, "but nothing that was measured is hidden"
    chips = page.chips()
    assert chips[0] == "FAILED", "as runs and the table say"
    assert chips[1:] == ["NO_BASELINE", "FAILED", "NO_BASELINE", "FAILED"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    point = dataclasses.replace(
        make_point(benchmark=HOSTILE), generator=HOSTILE, options={HOSTILE: HOSTILE}, key=f"key-{HOSTILE}"
    )
    run = make_run(tmp_path, points=[point], workers=1)
    result = make_result(0, benchmark=HOSTILE, status="failed", cause=HOSTILE)
    result = dataclasses.replace(result, options={HOSTILE: HOSTILE}, generator=HOSTILE)
    samples = make_samples([[1.0, 2.0]], benchmark=HOSTILE, operation=HOSTILE)
    manifest: dict[str, object] = {"versions": {HOSTILE: HOSTILE}, "environment": {HOSTILE: HOSTILE}}
    write_parts(run.folder, samples, [result], manifest)
    run.folder.write("logs/worker-0000.log", f"</pre>{HOSTILE}\n".encode() + b"\xff\x00")
    collect(run)
    compare(run)
    content = Path(report(run)).read_text()
    page = Page(content)
    assert "script" not in page.tags
    assert "<script" not in content
    assert HOSTILE.partition("&")[0] in page.text


def test_secrets_of_the_request_are_named_only(tmp_path: Path) -> None:
    run = finished(tmp_path)
    run.folder.write("request.json", b'{"request": {"env": ["HF_TOKEN=s3cr3t", "OTHER"]}}')
    content = Path(report(run)).read_text()
    assert "HF_TOKEN, OTHER" in content
    assert "s3cr3t" not in content


def test_variables_of_env_files_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    manifest: dict[str, object] = {
        "environment": {"MY_MODE": "fast"},
        "environment_given": ["HF_TOKEN", "MY_MODE"],
    }
    write_parts(run.folder, make_samples([[1.0]]), [make_result(0)], manifest)
    collect(run)
    run.folder.write("request.json", b'{"request": {"env": ["OTHER"], "env_file": ["/x.env"]}}')
    text = read(run).text
    assert "Environment asked for HF_TOKEN, MY_MODE, OTHER" in text
    assert "MY_MODE fast" in text


def test_the_commit_that_ran_is_named(tmp_path: Path) -> None:
    run = finished(tmp_path)
    source = {"repo": "https://example.test/fork", "ref": "main", "commit": "0123abcd", "dirty": "true"}
    run.mark("build", image={"kind": "venv", "reference": "5d40", "source": source, "versions": {}})
    text = read(run).text
    assert "0.12.8 (https://example.test/fork, main, 0123abcd, with local changes)" in text
    assert "venv 5d40" in text


def test_a_damaged_request_does_not_cost_the_report(tmp_path: Path) -> None:
    run = finished(tmp_path)
    run.folder.write("request.json", b"{")
    assert "quickstart on local" in read(run).text


def test_what_was_not_collected_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(
        InfrastructureError, match="not collected yet: slicebench run --resume run-1 --from collect"
    ):
        report_folder(make_run(tmp_path).folder)
