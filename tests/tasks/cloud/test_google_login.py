"""The Google login of this machine: where there is none it is not looked for again at once, but elsewhere it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.auth.exceptions import GoogleAuthError

from tasks.cloud import google_login as login
from tasks.cloud.google_login import google_login


def test_who_found_none_looks_elsewhere_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_NONE_FOR_S", 3600.0)  # however slow this machine is
    missing, there = tmp_path / "missing.json", tmp_path / "there.json"
    words = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    there.write_text(json.dumps(words))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(missing))
    with pytest.raises(GoogleAuthError) as first:
        google_login()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(there))
    assert google_login().client_id == "i"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(missing))
    with pytest.raises(GoogleAuthError) as again:
        google_login()
    assert again.value is first.value
