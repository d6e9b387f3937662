"""What the documents show is true: commands parse, links lead somewhere, suites check, the example class runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.suite_reader import check_text

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def _commands(page: Path) -> list[str]:
    """Returns the slicebench commands that a page shows, without their comments."""
    shown = re.findall(r"^    (slicebench .*)$|`(slicebench [^`]+)`", page.read_text(), re.MULTILINE)
    return [(block or inline).split("  #")[0].strip() for block, inline in shown]


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_a_page_is_one_that_parses(page: Path) -> None:
    from cyclopts import CycloptsError

    from flows.cli.main import app, in_full
    from flows.cli.workload_flags import fields_of, parsed

    for command in _commands(page):
        words = in_full(shlex.split(command)[1:])
        if "…" in command or "|" in words:
            continue
        if words[:2] == ["workload", "create"]:
            fields_of(parsed(words[2:]))  # it has a parser of its own
            continue
        try:
            app.parse_args(words, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            pytest.fail(f"{page.name}: {command}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_example_suite_is_right() -> None:
    (suite,) = _blocks("docs/suites.md", "yaml")
    assert check_text(suite, "docs/suites.md") == []


def test_the_example_class_runs(tmp_path: Path) -> None:
    (code,) = _blocks("docs/suites.md", "python")
    (tmp_path / "my_file.py").write_text(code)
    (tmp_path / "suite.yaml").write_text(
        "suite_name: mine\n"
        "mesh_config: {mesh_axes: [d], ici_parallelism: {d: 2}}\n"
        "checkpoint_config: {spec: {layers: {kernel: {dtype: float32, shape: [64, 8], sharding: [d]}}}}\n"
        "benchmarks: [{generator: my_file.ToNumpy, options: {copies: [1, 2]}}]\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "runtime",
            "suite.yaml",
            "--output",
            "out",
            "--platform",
            "cpu",
            "--devices-per-worker",
            "2",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "results").glob("samples-*.parquet"))) == 1
