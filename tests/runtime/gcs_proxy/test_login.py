"""Programs that send no token get the machine's, where the store is asked over TLS; nobody else's is touched."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path
from typing import Any

import google.auth
import pytest

from runtime.contract.errors import BadInput
from runtime.gcs_proxy import neighbours, serve
from runtime.gcs_proxy.authority import Authority, Published
from runtime.gcs_proxy.hosts import INTERCEPTED
from runtime.gcs_proxy.login import Login, refuse_pages
from runtime.gcs_proxy.options import add_options, settings
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.upstream import Origin, Pool
from runtime.gcs_proxy.wire import Headers
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy
from tests.runtime.gcs_proxy.test_forward import STORAGE, through

TARGET = "/storage/v1/b/bkt/o/a?alt=media&name=Signature"


class Credentials:
    """Gives a new token each time that it is refreshed."""

    def __init__(self) -> None:
        self.token, self.valid, self.broken, self.count = "", False, False, 0

    def refresh(self, request: Any) -> None:
        del request
        if self.broken:
            raise google.auth.exceptions.RefreshError("the metadata server is away")
        self.count += 1
        self.token, self.valid = f"token-{self.count}", True


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Credentials:
    made = Credentials()
    monkeypatch.setattr(google.auth, "default", lambda scopes: (made, "project"))
    return made


def test_who_has_no_token_gets_the_machines(credentials: Credentials) -> None:
    login = Login()
    assert login.added(TARGET, Headers([("Range", "bytes=0-1")])).get("authorization") == "Bearer token-1"
    assert login.added(TARGET, Headers()).all("authorization") == ["Bearer token-1"], "while it is valid"
    credentials.valid = False
    assert login.added(TARGET, Headers()).get("authorization") == "Bearer token-2"
    own = Headers([("authorization", "Bearer mine")])
    assert login.added(TARGET, own).all("authorization") == ["Bearer mine"]


@pytest.mark.parametrize(
    "query",
    ["X-Goog-Signature=0a", "alt=media&x-goog-signature=0a", "Signature=x&Expires=1", "X-Amz-Signature="],
)
def test_what_is_signed_by_its_address_gets_no_token(credentials: Credentials, query: str) -> None:
    assert not Login().added(f"/bkt/a?{query}", Headers()).has("authorization")
    assert credentials.count == 0


@pytest.mark.parametrize(
    ("fields", "is_page"),
    [
        ([("Host", "127.0.0.1:9081")], False),
        ([("Host", "localhost:9081"), ("Sec-Fetch-Mode", "cors")], False),  # as programs of Node say
        ([("Host", "[::1]:9081")], False),
        ([("Host", "127.0.0.1:9081"), ("Origin", "https://example.com")], True),
        ([("Host", "127.0.0.1:9081"), ("Sec-Fetch-Site", "cross-site")], True),
        ([("Host", "127.0.0.1.example.com:9081")], True),
        ([("Host", "[")], True),
        ([], True),
    ],
)
def test_web_pages_have_not_the_rights_of_the_machine(fields: list[tuple[str, str]], is_page: bool) -> None:
    if is_page:
        with pytest.raises(Refused, match="no web pages"):
            refuse_pages(Headers(fields))
    else:
        refuse_pages(Headers(fields))


def test_none_of_its_ports_answers_web_pages(store: Store, bucket: str, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    words = ["--no-encryption", "--login", "--processes", "2", "--certificates", str(tmp_path)]
    told = settings(parser.parse_args([*words, "--upstream", store.url]), {})
    reverse, forward, *peers = [serve.listening(("127.0.0.1", 0)) for _ in range(4)]
    authority, over = Authority(INTERCEPTED), threading.Event()
    Published(tmp_path, authority)
    sockets = serve.Sockets(reverse, None, forward, peers)
    working = threading.Thread(target=serve._work, args=(told, sockets, authority, 0, over))
    working.start()
    try:
        objects, page = f"/storage/v1/b/{bucket}/o", {"Origin": "https://example.com"}
        for listener in (reverse, peers[0]):
            proxy = Proxy(serve.url_of(listener), tmp_path / "none")
            assert proxy.ask("GET", objects).status == 200
            assert proxy.ask("GET", objects, headers=page).status == 403
            assert proxy.ask("GET", objects, headers={"Host": "rebound.example.com"}).status == 403
        proxy.forward = serve.url_of(forward)
        assert through(proxy, STORAGE, "GET", objects).status == 200
        assert through(proxy, STORAGE, "GET", objects, **page).status == 403
    finally:
        over.set()
        working.join()
        peers[1].close()


def test_programs_of_other_users_are_refused(
    store: Store, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser, objects = argparse.ArgumentParser(), f"/storage/v1/b/{bucket}/o"
    add_options(parser)
    monkeypatch.setattr(neighbours, "owner", lambda *_: os.geteuid() + 1)
    for words, status in (
        (["--login", "own"], 403),
        (["--login", "own", "--users", "all"], 403),  # its token is not lent
        (["--login", "all"], 200),
        ([], 403),
        (["--users", "all"], 200),
    ):
        told = settings(parser.parse_args(["--no-encryption", *words, "--upstream", store.url]), {})
        reverse, over = serve.listening(("127.0.0.1", 0)), threading.Event()
        sockets = serve.Sockets(reverse, None, None, [])
        working = threading.Thread(target=serve._work, args=(told, sockets, None, 0, over))
        working.start()
        try:
            assert Proxy(serve.url_of(reverse), tmp_path / "none").ask("GET", objects).status == status
        finally:
            over.set()
            working.join()


def test_without_a_token_nothing_is_asked(credentials: Credentials) -> None:
    credentials.broken = True
    pool = Pool(Origin("https", "127.0.0.1", 1), login=Login())
    with pytest.raises(Refused, match="no token for the store can be got") as refused:
        pool.ask("GET", "/", Headers())
    assert refused.value.status == 503


def test_a_machine_without_credentials_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(scopes: Any) -> Any:
        raise google.auth.exceptions.DefaultCredentialsError("none found")

    monkeypatch.setattr(google.auth, "default", none)
    with pytest.raises(BadInput, match="--login finds no credentials here: none found"):
        Login()


@pytest.mark.parametrize(
    ("url", "does"),
    [
        ("https://storage.googleapis.com", True),
        ("https://storage-mine.p.googleapis.com", True),
        ("http://127.0.0.1:1", False),
        ("https://127.0.0.1:1", False),
        ("https://store.example.com", False),
    ],
)
def test_no_token_goes_without_tls_or_to_others(credentials: Credentials, url: str, does: bool) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    told = settings(parser.parse_args(["--no-encryption", "--login", "--upstream", url]), {})
    assert (serve._gateway(told).pool._login is not None) is does
