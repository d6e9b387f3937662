"""The groups that series are judged in: which of them nobody measures any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.groups import groups, unmeasured
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.store import Dataset
from tests.tasks.history.dataset.making import BEGAN, DAY, records, row


@pytest.mark.parametrize(
    ("days", "names"),
    [
        (1, set()),
        (3, {"away", name_of_machine("away/released")}),
        (6, {"away", "old", name_of_machine("away/released")}),
    ],
)
def test_what_was_not_measured_since(tmp_path: Path, days: int, names: set[str]) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    dataset.append([row(1, series="away", benchmark_key="a", machine="away")])
    dataset.append([row(1, series="old"), row(1, series="new", benchmark_key="n")])
    dataset.append([row(4, series="old")])
    dataset.append([row(9, series="new", benchmark_key="n")])
    found = groups(records(dataset))
    assert set(unmeasured(found, BEGAN + days * DAY)) == names
