"""A key for a lease: made once, private, and put into a VM's metadata as Google's guest agent reads it."""

from __future__ import annotations

import json
from pathlib import Path

import paramiko

from tasks.cloud.ssh_keys import make_key, with_key, without_key

THERE = {"startup-script": "x", "ssh-keys": "jan:ssh-rsa BBBB jan"}


def test_made_once_and_readable_by_us_only(tmp_path: Path) -> None:
    file = tmp_path / "id"
    public = make_key(file, "run-1-e1")
    assert make_key(file, "run-1-e1") == public
    assert (file.stat().st_mode & 0o777, public.split()[2]) == (0o600, "run-1-e1")
    assert paramiko.Ed25519Key(filename=str(file)).get_base64() == public.split()[1]
    file.unlink()
    assert make_key(file, "run-1-e1") != public, "half a pair is no pair"


def test_metadata_gains_and_loses_our_line_only() -> None:
    pushed = with_key(THERE, "me", "ssh-ed25519 AAAA run-1-e1")
    assert pushed == {"startup-script": "x", "ssh-keys": "jan:ssh-rsa BBBB jan\nme:ssh-ed25519 AAAA run-1-e1"}
    assert with_key(pushed, "me", "ssh-ed25519 AAAA run-1-e1") == pushed
    assert without_key(pushed, "ssh-ed25519 AAAA run-1-e1") == THERE
    assert without_key(with_key({}, "me", "ssh-ed25519 AAAA x"), "ssh-ed25519 AAAA x") == {}


def test_a_key_that_ends_by_itself() -> None:
    line = with_key({}, "me", "ssh-ed25519 AAAA run-1-e1", 1_700_000_000.0)["ssh-keys"]
    head, _, told = line.partition(" google-ssh ")
    assert head == "me:ssh-ed25519 AAAA"
    assert json.loads(told) == {"userName": "me", "expireOn": "2023-11-14T22:13:20+0000"}
