"""Says what is wrong with text that is not YAML, in the place where it is wrong, with the usual remedy."""

from __future__ import annotations

from typing import Any

import yaml

from runtime.contract.errors import Place, Problem


def place_at(file: str, mark: Any) -> Place:
    """Returns the place of one of PyYAML's marks, which count from 0."""
    return Place(file, mark.line + 1, mark.column + 1)


def unreadable(error: yaml.reader.ReaderError, text: str, file: str) -> Problem:
    """Tells a character that YAML does not allow."""
    before = text[: error.position]
    place = Place(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    what = f"character {ord(text[error.position]):#x} is not allowed in YAML"
    return Problem("error", place, what, fix="remove it, or write it as an escape in double quotes")


def malformed(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    """Tells where PyYAML gave up, why, and what usually helps."""
    mark = error.problem_mark or error.context_mark
    place = Place(file) if mark is None else place_at(file, mark)
    what = f"not YAML: {error.problem or error.context or 'malformed'}"
    return Problem("error", place, what, error.context or "", _remedy(what, mark, text))


def _remedy(what: str, mark: Any, text: str) -> str:
    line = text.splitlines()[mark.line] if mark is not None and mark.line < len(text.splitlines()) else ""
    if "\\t" in what or "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces, never with tabs"
    if "mapping values are not allowed" in what:
        return "check the indentation, or quote the text that holds ': '"
    if "expected a single document" in what or "another document" in what:
        return "keep one document: remove the second '---'"
    if "undefined alias" in what:
        return "define the anchor before it is used"
    return "check indentation, brackets and quotes here"
