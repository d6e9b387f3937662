"""The pool and its links against real sshd: many hosts, dropped and frozen links, jump hosts, files, refusals."""

from __future__ import annotations

import io
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Endpoint, Host
from tasks.cloud.ssh_errors import NotAdmitted, NotTrusted, SshError, Unfit, Unreachable
from tasks.cloud.ssh_link import Link, Ran
from tests.cloud.sshd import Sshd, serve_ssh
from tests.tasks.targets.ssh_runs import wait_for_hosts
from tests.waiting import PATIENCE_S


def endpoint(sshd: Sshd) -> Endpoint:
    return Endpoint(sshd.address, sshd.user, sshd.port, (str(sshd.key),), sshd.pin)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(connect_s=PATIENCE_S)
    yield pool
    pool.close()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that whoever logs in may write to."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o777)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_output_errors_and_exit_codes_are_told_apart(two_hosts: list[Sshd], pool: Pool) -> None:
    told = pool.link(endpoint(two_hosts[0])).run(["sh", "-c", "cat; echo $0 >&2; exit 7", "a b'c"], b"in\n")
    assert told == Ran(7, b"in\n", "a b'c\n")


def test_each_host_answers_for_itself(two_hosts: list[Sshd], pool: Pool) -> None:
    first, second = map(endpoint, two_hosts)
    nobody = replace(first, port=1)

    def where(link: Link) -> str:
        return link.run(["sh", "-c", "echo $SSH_CONNECTION"]).output.split()[2].decode()

    told = pool.each([first, second, nobody], where)
    assert (told[first], told[second]) == (first.address, second.address)
    refused = told[nobody]
    assert isinstance(refused, Unreachable)
    assert (refused.reason, refused.host) == ("refused", str(nobody))


def test_a_megabyte_each_way(two_hosts: list[Sshd], pool: Pool) -> None:
    content = os.urandom(3 << 20)
    assert pool.link(endpoint(two_hosts[0])).run(["cat"], content).output == content


def test_a_command_that_takes_too_long_is_an_unreachable_host(two_hosts: list[Sshd], pool: Pool) -> None:
    link = pool.link(endpoint(two_hosts[0]))
    with pytest.raises(Unreachable, match="sleep gave no answer within 0.3 s"):
        link.run(["sleep", "30"], timeout_s=0.3)
    assert not link.alive
    assert pool.link(endpoint(two_hosts[0])).run(["true"]).code == 0


def test_files_are_written_whole_and_with_their_mode(two_hosts: list[Sshd], pool: Pool, place: Path) -> None:
    link = pool.link(endpoint(two_hosts[0]))
    file = place / "job.json"
    link.write(str(file), b"secret", 0o600)
    link.write(str(file), b"secret 2", 0o600)
    assert [entry.name for entry in place.iterdir()] == ["job.json"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert link.read(str(file), 2, 100) == b"cret 2"
    before = file.stat().st_mtime_ns
    link.touch(str(file))
    assert file.stat().st_mtime_ns > before
    with pytest.raises(FileNotFoundError):
        link.touch(str(place / "none"))
    with pytest.raises(FileNotFoundError):
        link.read(str(place / "none"), 0, 1)
    (place / "folder").mkdir()
    (place / "link").symlink_to("/etc")
    (place / "job.json").write_bytes(b"four")
    assert sorted(link.names(str(place))) == [("folder", True, 4096), ("job.json", False, 4)]


def test_a_large_file_comes_home_whole(two_hosts: list[Sshd], pool: Pool, place: Path) -> None:
    content = os.urandom((9 << 20) + 17)
    (place / "big").write_bytes(content)
    into = io.BytesIO()
    pool.link(endpoint(two_hosts[0])).download(str(place / "big"), into, len(content))
    assert into.getvalue() == content


def test_what_may_not_be_written_is_unfit_not_unreachable(two_hosts: list[Sshd], pool: Pool) -> None:
    if two_hosts[0].user == "root":
        pytest.skip("root may write anywhere")
    link = pool.link(endpoint(two_hosts[0]))
    with pytest.raises(Unfit) as caught:
        link.write("/root-only", b"")
    assert caught.value.reason == "permission"
    assert link.alive


def test_many_threads_share_one_link(two_hosts: list[Sshd], pool: Pool, place: Path) -> None:
    link = pool.link(endpoint(two_hosts[0]))
    (place / "text").write_bytes(b"0123456789" * 1000)
    wrong: list[object] = []

    def use(number: int) -> None:
        for step in range(10):
            offset = (number * 131 + step * 17) % 9000
            if link.read(str(place / "text"), offset, 10) != (b"0123456789" * 2000)[offset : offset + 10]:
                wrong.append((number, step))
            if number == 0 and link.run(["echo", str(step)]).output != f"{step}\n".encode():
                wrong.append(step)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(two_hosts[0].sessions()) <= 3, "one connection"


def test_a_dropped_link_is_dialled_again(own_host: Sshd, pool: Pool) -> None:
    first = pool.link(endpoint(own_host))
    assert pool.link(endpoint(own_host)) is first
    own_host.drop()
    assert pool.call(endpoint(own_host), lambda link: link.run(["echo", "again"])).output == b"again\n"
    assert pool.link(endpoint(own_host)) is not first


@pytest.mark.parametrize(("breaks", "ends_well"), [(4, True), (5, False)])
def test_a_call_outlives_links_that_break_again_and_again(
    own_host: Sshd, pool: Pool, breaks: int, ends_well: bool
) -> None:
    tries = []

    def task(link: Link) -> bytes:
        tries.append(link)
        if len(tries) <= breaks:
            link.close()
        return link.run(["echo", "through"]).output

    if ends_well:
        assert pool.call(endpoint(own_host), task) == b"through\n"
    else:
        with pytest.raises(Unreachable, match="broke"):
            pool.call(endpoint(own_host), task)
    assert len(tries) == len(set(tries)) == 5


def test_a_host_without_power_is_noticed(own_host: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(connect_s=PATIENCE_S)
    link = pool.link(endpoint(own_host))
    assert link.read("/proc/self/stat", 0, 3)
    own_host.freeze()
    wait_for_hosts(pool, 0.5, monkeypatch)
    with pytest.raises(Unreachable) as caught:
        pool.call(endpoint(own_host), lambda link: link.read("/proc/self/stat", 0, 3))
    assert caught.value.reason in ("timeout", "no_banner")
    own_host.thaw()
    wait_for_hosts(pool, PATIENCE_S, monkeypatch)
    assert pool.call(endpoint(own_host), lambda link: link.read("/proc/self/stat", 0, 3))
    pool.close()


def test_a_host_that_drops_new_connections_is_tried_again(need_sshd: None) -> None:
    with serve_ssh(1, config=["MaxStartups 2:90:3"]) as [host]:
        pool = Pool(connect_s=PATIENCE_S)
        users = [replace(endpoint(host), keys=(str(host.key),) * n) for n in range(1, 13)]
        told = pool.each(users, lambda link: link.run(["true"]).code)
        assert [told[user] for user in users] == [0] * 12
        pool.close()


@pytest.mark.parametrize("pinned", [True, False])
def test_through_a_jump_host(two_hosts: list[Sshd], pool: Pool, tmp_path: Path, pinned: bool) -> None:
    jump, host = map(endpoint, two_hosts)
    if not pinned:
        known = tmp_path / "known_hosts"
        known.write_text("".join(f"[{one.address}]:{one.port} {one.pin}\n" for one in two_hosts))
        jump, host = (replace(one, host_key=None, known_hosts=str(known)) for one in (jump, host))
    through = replace(host, jump=jump)
    told = pool.link(through).run(["sh", "-c", "echo $SSH_CONNECTION"]).output.split()
    assert told[2].decode() == host.address
    wrong = replace(through, jump=replace(jump, host_key=two_hosts[1].pin))
    with pytest.raises(NotTrusted, match=jump.address):
        pool.link(wrong)
    nowhere = replace(through, port=1, host_key=two_hosts[1].pin)
    with pytest.raises(Unreachable, match="its jump host .* does not get through"):
        pool.link(nowhere)


def test_unknown_and_changed_host_keys_are_refused(two_hosts: list[Sshd], pool: Pool, tmp_path: Path) -> None:
    first, second = two_hosts
    known = tmp_path / "known_hosts"
    by_file = replace(endpoint(first), host_key=None, known_hosts=str(known))
    with pytest.raises(NotTrusted) as caught:
        pool.link(by_file)
    assert caught.value.reason == "host_key_unknown"
    assert f"ssh-keyscan -p {first.port} {first.address} >> {known}" in str(caught.value)
    known.write_text(f"[{first.address}]:{first.port} {second.pin}\n")
    with pytest.raises(NotTrusted) as caught:
        pool.link(by_file)
    assert caught.value.reason == "host_key_changed"
    assert str(caught.value).count("SHA256:") == 2
    known.write_text(f"[{first.address}]:{first.port} {first.pin}\n@revoked * {first.pin}\n")
    with pytest.raises(NotTrusted) as caught:
        pool.link(by_file)
    assert caught.value.reason == "host_key_revoked"
    known.write_text(f"[{first.address}]:{first.port} {first.pin}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    assert first.address not in known.read_text()
    assert pool.link(by_file).run(["true"]).code == 0


def test_keys_are_offered_only_when_named(
    two_hosts: list[Sshd], pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = endpoint(two_hosts[0])
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)

    def refusal(**change: object) -> NotAdmitted:
        with pytest.raises(NotAdmitted) as caught:
            pool.link(replace(host, **change))  # type: ignore[arg-type]
        return caught.value

    assert (refusal(keys=()).reason, refusal(keys=()).what) == (
        "public_key_denied",
        "there is no key to offer",
    )
    denied = refusal(keys=(str(other),))
    assert denied.reason == "public_key_denied"
    assert "authorized_keys" in str(denied) and str(other) in str(denied)
    assert refusal(keys=(str(tmp_path / "none"),)).reason == "key_unreadable"
    encrypted = tmp_path / "encrypted"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(encrypted)], check=True)
    assert "is encrypted" in str(refusal(keys=(str(encrypted),)))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    assert refusal(keys=(), agent=True).reason == "agent_refused"
    assert pool.link(replace(host, keys=(str(other), str(two_hosts[0].key)))).run(["true"]).code == 0


def test_the_agents_keys_are_used_when_asked_and_the_agent_is_never_forwarded(
    two_hosts: list[Sshd], pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = subprocess.check_output(["ssh-agent", "-s"], text=True)
    socket, pid = (line.split("=")[1].split(";")[0] for line in told.splitlines()[:2])
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        subprocess.run(["ssh-add", "-q", str(two_hosts[0].key)], check=True)
        host = replace(endpoint(two_hosts[0]), keys=())
        with pytest.raises(NotAdmitted):
            pool.link(host)
        link = pool.link(replace(host, agent=True))
        assert link.run(["sh", "-c", "echo ${SSH_AUTH_SOCK:-none}"]).output == b"none\n"
    finally:
        subprocess.run(["kill", pid], check=True)


def test_silence_and_noise_where_an_sshd_should_be(pool: Pool, tmp_path: Path, need_sshd: None) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        quick = Pool(connect_s=0.3)
        silent = Endpoint("127.0.0.1", "me", server.getsockname()[1], host_key=_some_pin(tmp_path))
        with pytest.raises(Unreachable) as caught:
            quick.link(silent)
        assert caught.value.reason in ("no_banner", "timeout")
        quick.close()
    named = replace(silent, address="no-such-host.invalid")
    with pytest.raises(Unreachable) as caught:
        pool.link(named)
    assert caught.value.reason == "no_such_name"


def test_the_address_book_remembers_hosts_but_no_secrets(tmp_path: Path) -> None:
    jump = Endpoint("gate", "me", keys=("~/.ssh/id",))
    there = Endpoint("10.0.0.1", "bench", 2222, ("~/.ssh/id", "/k"), "ssh-ed25519 AAAA", jump=jump)
    host = Host(there, "/opt/python", "/data")
    AddressBook(tmp_path).remember(host)
    assert AddressBook(tmp_path).find(str(host)) == host
    assert AddressBook(tmp_path).find("bench@elsewhere:22") is None
    assert str(Endpoint("::1", "me")) == "me@[::1]:22"


def _some_pin(folder: Path) -> str:
    file = folder / "pin"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return " ".join((folder / "pin.pub").read_text().split()[:2])


def test_every_error_says_host_cause_and_fix() -> None:
    error = Unfit("me@host:22", "no_space", "the disk is full", "free some")
    assert isinstance(error, SshError)
    assert str(error) == "me@host:22: the disk is full; free some"
