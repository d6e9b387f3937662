"""Google's APIs over REST: pages of lists, and what is said where nobody is logged in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tasks.cloud import google_rest, kubernetes_errors
from tasks.cloud.container_errors import Unanswered
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


@pytest.mark.parametrize(
    ("text", "words"),
    [("<html>\n proxy </html>", "<html> proxy </html>"), ("[]", r"\[\]")],
    ids=["page", "list"],
)
def test_a_reply_that_is_no_document_says_nothing_of_what_happened(
    monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    page = httpx.Response(200, text=text)
    client = SimpleNamespace(request=lambda *more, **named: page)
    monkeypatch.setattr(google_rest, "_client", lambda variable, endpoint, token, pid: ("", client, None))
    with pytest.raises(Unanswered, match=f"storage.googleapis.com answered {words}"):
        Rest("storage.googleapis.com").send("POST", "make it", "storage/v1/b")
