"""What of a suite is run again in a night: what stood out, in the circumstances in which it was run at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.expand import expand
from runtime.contract.suite_reader import read_suite
from tasks.config.request import RunRequest
from tasks.stages.nightly_again import Repeated, repeated

SUITE = """\
suite_name: s
{}checkpoint_config: {{spec: {{a: int}}}}
benchmarks:
  - {{generator: my.First, options: {{}}}}
  - {{generator: runtime.benchmarks.reference.Reference, options: {{to: "{{run}}/r"}}}}
  - {{generator: my.Own, options: {{x: [1, 2, 3]}}}}
  - {{generator: my.Other, options: {{x: [1, 2]}}}}
"""


@pytest.mark.parametrize(
    ("line", "stood_out", "again", "words"),
    [
        ("", ["Own[x=2]"], ["First", "Own[x=2]"], "2 of 7 benchmarks"),
        ("", ["First"], ["First"], "1 of 7 benchmarks"),
        (
            "interleave: true\n",
            ["Own[x=2]"],
            ["First", "Own[x=1]", "Own[x=2]", "Own[x=3]"],
            "4 of 7 benchmarks",
        ),
        ("only: [1, Reference]\n", ["First"], [], "all of it"),
        ("", [], [], "all of it"),
    ],
)
def test_what_is_repeated(
    tmp_path: Path, line: str, stood_out: list[str], again: list[str], words: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SUITE.format(line))
    whole = {one.benchmark: one.key for one in expand(read_suite(SUITE.format(""), "s.yaml"))}
    found = repeated(RunRequest(suite=str(path)), {whole[name] for name in stood_out})
    assert found == Repeated(tuple(whole[name] for name in again), words)


def test_of_a_suite_that_cannot_be_read_any_more_it_is_left_to_the_run_to_say_so(tmp_path: Path) -> None:
    assert repeated(RunRequest(suite=str(tmp_path / "gone.yaml")), {"key"}) == Repeated()
