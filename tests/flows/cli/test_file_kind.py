"""A file's kind is told by its keys, also where the one that tells it is mistyped."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.file_kind import kind_of_file, refuse_other_kind
from runtime.contract.errors import BadInput

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("suite_name benchmarks include", "suite"),
        ("suite_name benchmrks num_repeats", "suite"),
        ("kind workers", "target"),
        ("knd workers platform", "target"),
        ("name suites", "nightly"),
        ("name suits versions", "nightly"),
        ("suits", "nightly"),
        ("name tpu_pools", "environment"),
        ("recrod project tpu_pool", "environment"),
        ("", "suite"),
        ("nonsense", "suite"),
    ],
)
def test_keys_tell_the_kind(keys: str, kind: str) -> None:
    assert kind_of_file(keys.split()) == kind


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("acceptance", "is an acceptance, and no suite"),
        ("nightly", "is a nightly, and no suite"),
        ("targets", "is a target, and no suite"),
        ("environments", "is an environment, and no suite"),
    ],
)
def test_a_file_of_another_kind_is_no_suite(folder: str, said: str) -> None:
    for file in (CONFIGS / folder).glob("*.yaml"):
        with pytest.raises(BadInput, match=said) as refused:
            refuse_other_kind(str(file))
        assert str(file) in (refused.value.problems[0].fix or "")


def test_suites_and_what_nobody_can_read_are_left_to_others(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.yaml", tmp_path / "empty.yaml"
    broken.write_text("variants: [")
    empty.write_text("")
    for file in (*(CONFIGS / "suites").glob("*.yaml"), broken, empty, tmp_path / "none.yaml", "quickstart"):
        refuse_other_kind(str(file))
