"""Every pattern of a field has words: whoever writes something else is told what it must be, not shown a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config import wording
from tasks.config.cluster import ClusterConfig
from tasks.config.load import load_target
from tasks.config.request import RunRequest
from tasks.config.schemas import environment_schema, target_schema


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(found := schema.get("pattern"), str):
            yield found
        for value in schema.values():
            yield from patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns(value)


SCHEMAS = (
    target_schema(),
    environment_schema(),
    ClusterConfig.model_json_schema(),
    RunRequest.model_json_schema(),
)


@pytest.mark.parametrize("pattern", sorted({one for schema in SCHEMAS for one in patterns(schema)}))
def test_each_pattern_has_words(pattern: str) -> None:
    error = {"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}, "msg": ""}
    assert wording.wanted(error)


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        ("{directory: rel, host_path: /x}", "a whole path of a folder without a colon"),
        ("{directory: /a, nfs: server}", "SERVER:/PATH"),
        ("{directory: /a, host_path: x}", "a whole path of a folder"),
        ("x", "a mapping of names to values"),
    ],
)
def test_a_shared_folder_that_is_none_is_told_with_its_line(shared: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "target.yaml"
    file.write_text(f"kind: gke\ncontext: c\nnamespace: n\nimage: r/i:t\ntype: cpu\nshared: {shared}\n")
    with pytest.raises(BadInput) as told:
        load_target(file)
    assert words in str(told.value) and "target.yaml:6" in str(told.value)
