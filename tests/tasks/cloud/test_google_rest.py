"""Google's APIs over REST: pages of lists, and what is said where nobody is logged in."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tasks.cloud import google_rest, kubernetes_errors
from tasks.cloud.google_login import NoLogin
from tasks.cloud.google_rest import Rest


def test_the_token_of_a_page_comes_back_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"": {"items": [1], "nextPageToken": "a+b/c=&d"}, "a+b/c=&d": {"items": [2]}}
    rest = Rest("storage.googleapis.com")

    def get(doing: str, path: str) -> Any:
        return pages[parse_qs(urlsplit(path).query).get("pageToken", [""])[0]]

    monkeypatch.setattr(rest, "get", get)
    assert rest.listed("list", "storage/v1/b/x/o?versions=true", "items") == [1, 2]


def test_want_of_a_login_is_told_apart_from_want_of_a_role() -> None:
    def tokens(refused: bool) -> str:
        raise kubernetes_errors.Nobody("log in")

    with pytest.raises(NoLogin, match="log in"):
        google_rest._token(tokens, False)  # type: ignore[arg-type]
