"""Commands that people are told can be typed as they are, and name an output only where it is not the usual one."""

from __future__ import annotations

from tasks.config.commands import output_words, resume, run_words
from tasks.config.home import runs_folder


def test_a_run_in_the_usual_folder_is_named_by_its_id() -> None:
    assert run_words(f"{runs_folder()}/r1") == "r1"
    assert resume(f"{runs_folder()}/r1", "--from", "collect") == "slicebench run --resume r1 --from collect"
    assert output_words(str(runs_folder())) == []


def test_elsewhere_it_is_named_with_its_output_as_a_shell_takes_it() -> None:
    assert run_words("gs://bucket/runs/r1") == "r1 --output gs://bucket/runs"
    assert resume("/my runs/r1") == "slicebench run --resume r1 --output '/my runs'"
