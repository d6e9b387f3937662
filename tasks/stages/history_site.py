"""Writes the history as pages: one series, or a static site of all that works from a folder or a bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tasks.cloud.storage import Folder
from tasks.history.dataset.lines import Shown, machine_words
from tasks.history.dataset.store import Dataset
from tasks.history.report.of_series import entry, series_page
from tasks.history.report.series_page import render_series
from tasks.history.report.site_page import Entry, Section, render_site
from tasks.stages.history import Looked, judged_of_all

INDEX = "index.html"
_SERIES = "series"
_AT_ONCE = 8


def page_name(series: str) -> str:
    """Returns the name of the page of a series in the site."""
    return f"{_SERIES}/{series}.html"


def write_page(folder: Folder, shown: Shown) -> str:
    """Writes the page of one series; returns where it lies."""
    name = f"{shown.one.id}.html"
    folder.write(name, render_series(series_page(shown)).encode())
    return f"{folder.uri}/{name}"


def write_site(folder: Folder, dataset: Dataset, looked: Looked) -> int:
    """Writes a page per series and the table of all, which comes last: it never leads to a page that is not there yet.

    Pages of series that the history no longer has go. Returns how many series there are.
    """
    sections: dict[tuple[str, str], list[Entry]] = {}
    links: list[str] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        writing = []
        for shown in _all_shown(dataset, looked):
            link = page_name(shown.one.id)
            page = render_series(series_page(shown), home=f"../{INDEX}")
            writing.append(pool.submit(folder.write, link, page.encode()))
            links.append(link)
            machine = (machine_words(shown.one), shown.one.about["track"])
            sections.setdefault(machine, []).append(entry(shown, link))
        for one in writing:
            one.result()
    told = [Section(machine, track, entries) for (machine, track), entries in sections.items()]
    folder.write(INDEX, render_site(told, time.time()).encode())
    for name in set(folder.names(_SERIES)) - set(links):
        if name.endswith(".html"):
            folder.delete(name)
    return len(links)


def _all_shown(dataset: Dataset, looked: Looked) -> Iterator[Shown]:
    records, decisions = looked.records, judged_of_all(dataset, looked)
    for one in records.series.values():
        yield Shown(one, records.seen(one.id), records.holes(one), decisions.get(one.id, ()), looked.notes)
