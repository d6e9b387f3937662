"""Links between pages: relative where both lie in one place."""

from __future__ import annotations

import pytest

from tasks.history.report.leading import leading


@pytest.mark.parametrize(
    ("folder", "file", "link"),
    [
        ("/runs/night", "/runs/series/index.html", "../series/index.html"),
        ("/runs/night", "/my site/a#1.html", "../../my%20site/a%231.html"),
        ("gs://b/runs/night", "gs://b/site/index.html", "../../site/index.html"),
        ("gs://b", "gs://b/site/index.html", "site/index.html"),
        ("gs://b/runs/night", "gs://other/a/i.html", "https://storage.cloud.google.com/other/a/i.html"),
        ("/runs/night", "gs://other/i.html", "https://storage.cloud.google.com/other/i.html"),
        ("gs://b/runs/night", "/my site/i.html", "file:///my%20site/i.html"),
    ],
)
def test_links(folder: str, file: str, link: str) -> None:
    assert leading(folder, file) == link
