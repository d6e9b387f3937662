"""A file's kind is told by its keys, also where the one that tells it is mistyped."""

from __future__ import annotations

import pytest

from flows.cli.file_kind import kind_of_file


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
