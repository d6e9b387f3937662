"""Target files of hosts: what may be left out, what is refused and where, how a request chooses among hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.load import load_target
from tasks.config.ssh_target import SshTargetConfig
from tasks.targets.ssh_plan import host_of

GROUPS = """\
kind: ssh
user: me
python: /p
hosts:
  - {address: a1, group: a}
  - {address: a2, group: a}
  - {address: b1, group: b}
  - {address: b2, group: b}
"""


HEAD = "kind: ssh\nuser: me\npython: /p\n"


def load(folder: Path, text: str) -> SshTargetConfig:
    path = folder / "hosts.yaml"
    path.write_text(text)
    target = load_target(path)
    assert isinstance(target, SshTargetConfig)
    return target


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(BadInput) as caught:
        load(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_a_short_file_is_enough(tmp_path: Path) -> None:
    target = load(tmp_path, HEAD + "hosts: [h1, {address: h2, port: 2222, user: you}]\n")
    first, second = (host_of(target, host) for host in target.hosts)
    assert (str(first), str(second)) == ("me@h1:22", "you@h2:2222")
    assert (first.endpoint.agent, first.endpoint.default_keys, first.endpoint.keys) == (False, False, ())
    assert (target.workers, target.slices) == (2, 1)


def test_what_holds_for_all_hosts_holds_for_each(tmp_path: Path) -> None:
    target = load(
        tmp_path,
        "kind: ssh\nuser: me\nkey: ~/k\nport: 23\npython: ~/venv/bin/python\n"
        'jump: {address: gate, host_key: "ssh-ed25519 AAAA"}\n'
        "hosts: [h1, {address: h2, key: /other, jump: {address: own, user: root}}]\n",
    )
    first, second = (host_of(target, host).endpoint for host in target.hosts)
    assert first.jump is not None and second.jump is not None
    assert (str(first.jump), first.jump.host_key, first.jump.keys) == (
        "me@gate:22",
        "ssh-ed25519 AAAA",
        ("~/k",),
    )
    assert (str(second.jump), second.keys, second.jump.keys) == ("root@own:22", ("/other",), ("/other",))
    assert first.host_key is None


def test_a_request_takes_as_many_hosts_of_each_group(tmp_path: Path) -> None:
    target = load(tmp_path, GROUPS)
    assert [host.address for host in target.with_choices(2, None).hosts] == ["a1", "b1"]
    assert target.with_choices(None, 4).devices_per_worker == 4
    with pytest.raises(BadInput, match="has 4 hosts, evenly over 2 groups"):
        target.with_choices(3, None)
    with pytest.raises(BadInput, match="--workers 5: the target has 4 hosts"):
        target.with_choices(5, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD, "hosts.yaml:1:1: hosts is missing"),
        (HEAD + "hosts: []\n", "hosts.yaml:4:1: hosts: name at least one host"),
        ("kind: ssh\npython: /p\nhosts: [h1]\n", "user is missing"),
        (HEAD + "hosts: [h1, h1]\n", "h1 is named twice"),
        (HEAD + "hosts: [{adress: h1}]\n", ":4:10: unknown key 'adress', did you mean 'address'?"),
        (HEAD + "jump: {adres: g}\nhosts: [h1]\n", "unknown key 'adres', did you mean 'address'?"),
        (HEAD + "hosts: [{address: h, port: 99999}]\n", "port must be less than 65536, not 99999"),
        ("kind: ssh\nuser: me\npython: python3\nhosts: [h]\n", "it must be a path from / or ~/ on"),
        (HEAD + "hosts: [{address: h, group: a}, {address: i, group: a}, {address: j, group: b}]\n",
         "slices are of one size: a has 2, b has 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(tmp_path, text)
