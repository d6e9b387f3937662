"""Suites with a benchmark class of the user's own, laid out as a user does: the class beside the suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml


def lay_suite(folder: Path, name: str, **options: object) -> Path:
    """Makes a folder with the suite NAME and the class of NAME.py here; returns the suite's path."""
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name(f"{name}.py"), folder)
    benchmark = {"generator": f"{name}.{name.title()}", "options": options}
    suite = folder / f"{name}.yaml"
    suite.write_text(yaml.safe_dump({"suite_name": name, "benchmarks": [benchmark]}))
    return suite
