"""Programs that send no token get the machine's, where the store is asked over TLS; nobody else's is touched."""

from __future__ import annotations

import argparse
from typing import Any

import google.auth
import pytest

from runtime.contract.errors import BadInput
from runtime.gcs_proxy import serve
from runtime.gcs_proxy.login import Login
from runtime.gcs_proxy.options import add_options, settings
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.upstream import Origin, Pool
from runtime.gcs_proxy.wire import Headers


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
    assert login.added(Headers([("Range", "bytes=0-1")])).get("authorization") == "Bearer token-1"
    assert login.added(Headers()).all("authorization") == ["Bearer token-1"], "while it is valid"
    credentials.valid = False
    assert login.added(Headers()).get("authorization") == "Bearer token-2"
    own = Headers([("authorization", "Bearer mine")])
    assert login.added(own).all("authorization") == ["Bearer mine"]


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
    ("url", "does"), [("https://storage.googleapis.com", True), ("http://127.0.0.1:1", False)]
)
def test_no_token_goes_without_tls(credentials: Credentials, url: str, does: bool) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    told = settings(parser.parse_args(["--no-encryption", "--login", "--upstream", url]), {})
    assert (serve._gateway(told).pool._login is not None) is does
