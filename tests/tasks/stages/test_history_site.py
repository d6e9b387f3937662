"""The site of all series: every link leads to a page, the table comes last, and pages of series that are gone go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.notes import write_note
from tasks.history.dataset.store import Dataset
from tasks.stages.history import look, open_history
from tasks.stages.history_site import write_site
from tests.tasks.history.dataset.making import Failing, Killed, note, row

SLOW = (1.2, 1.21, 1.19)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two series of 20 nights: one gets slower in the last two, of the other the last run failed."""
    dataset = open_history(str(tmp_path / "history"))
    for n in range(20):
        steady = [1.0 + 0.001 * (n % 3), 1.001, 0.999]
        restore = {"operation": "restore", "benchmark_key": "key-other", "benchmark": "other"}
        if n == 19:
            failed = row(
                n, (), status="failed", cause="no room", benchmark_key="key-other", benchmark="other"
            )
        else:
            failed = row(n, steady, **restore)
        dataset.append([row(n, SLOW if n >= 18 else steady), failed])
    return dataset


def test_each_series_has_a_page_and_the_table_leads_there(tmp_path: Path, dataset: Dataset) -> None:
    write_note(dataset.folder, note("annotate", "run-3", text="new <disk>"))
    site = open_folder(str(tmp_path / "site"))
    assert write_site(site, dataset, look(dataset)) == 2
    index = (tmp_path / "site" / "index.html").read_text()
    links = re.findall(r'href="(series/[^"]+)"', index)
    pages = [(tmp_path / "site" / link).read_text() for link in links]
    assert len(pages) == 2
    worse, missing = pages
    assert "REGRESSED" in worse and "new &lt;disk&gt;" in worse and 'class="change regressed"' in worse
    assert "NOT_RUN" in missing and "no room" in missing
    assert all('href="../index.html"' in page for page in pages)


@pytest.mark.parametrize("nth", [1, 2])
def test_killed_before_the_table_leaves_the_earlier_one(tmp_path: Path, dataset: Dataset, nth: int) -> None:
    site = open_folder(str(tmp_path / "site"))
    write_site(site, dataset, look(dataset))
    before = (tmp_path / "site" / "index.html").read_bytes()
    dataset.append([row(20, SLOW, operation="third", benchmark_key="key-third")])
    with pytest.raises(Killed):
        write_site(Failing(site, nth, "before"), dataset, look(dataset))
    assert (tmp_path / "site" / "index.html").read_bytes() == before


def test_the_page_of_a_series_that_is_gone_goes_and_no_other_file(tmp_path: Path, dataset: Dataset) -> None:
    folder = tmp_path / "site" / "series"
    folder.mkdir(parents=True)
    for name in ("old-1234567890.html", "note.txt", "mine.html.bak"):
        (folder / name).write_text("x")
    write_site(open_folder(str(tmp_path / "site")), dataset, look(dataset))
    left = {path.name for path in folder.iterdir()}
    assert {"note.txt", "mine.html.bak"} < left and "old-1234567890.html" not in left


def test_a_history_without_series_is_a_page_that_says_so(tmp_path: Path) -> None:
    dataset = open_history(str(tmp_path / "nothing"))
    assert write_site(open_folder(str(tmp_path / "site")), dataset, look(dataset)) == 0
    assert "There is no series yet" in (tmp_path / "site" / "index.html").read_text()
