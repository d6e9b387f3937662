"""Conversations with one process on a host: its answers, its end, its silence, broken links."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import Unfit, Unreachable
from tasks.cloud.ssh_link import Link, Ran
from tasks.cloud.ssh_steward import Conversation, converse
from tests.cloud.sshd import Sshd
from tests.tasks.cloud.test_ssh import endpoint
from tests.tasks.targets.ssh_runs import host_folder
from tests.waiting import PATIENCE_S

ECHO = ["sh", "-c", "while read -r line; do echo $$ $line; done; exit 3"]


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(connect_s=PATIENCE_S)
    yield pool
    pool.close()


def test_one_process_answers_one_request_after_another(two_hosts: list[Sshd], pool: Pool) -> None:
    with pool.link(endpoint(two_hosts[0])).talk(ECHO) as talk:
        answers = [
            talk.exchange(f"{word}\n".encode(), PATIENCE_S).output.decode().split() for word in ("a", "b")
        ]
    (first, a), (second, b) = answers
    assert (a, b, first) == ("a", "b", second)


def test_a_program_that_ends_instead_of_answering_is_told_with_its_code_and_errors(
    two_hosts: list[Sshd], pool: Pool
) -> None:
    link = pool.link(endpoint(two_hosts[0]))
    with link.talk(["sh", "-c", "read -r line; echo half | tr -d '\\n'; echo sorry >&2; exit 5"]) as talk:
        assert talk.exchange(b"a\n", PATIENCE_S) == Ran(5, b"half", "sorry\n")
        assert talk.exchange(b"b\n", PATIENCE_S).code == 5, "to speak to what has ended is no broken link"
    assert link.alive


def test_silence_is_an_unreachable_host(two_hosts: list[Sshd], pool: Pool) -> None:
    link = pool.link(endpoint(two_hosts[0]))
    with link.talk(["sleep", "30"]) as talk, pytest.raises(Unreachable, match="no answer within 0.3 s"):
        talk.exchange(b"", 0.3)
    assert not link.alive


def test_a_link_that_breaks_in_between_is_dialled_again_and_all_is_said_again(
    own_host: Sshd, pool: Pool
) -> None:
    said: list[str] = []

    def task(link: Link) -> str:
        with link.talk(ECHO) as talk:
            said.append(talk.exchange(b"a\n", PATIENCE_S).output.decode())
            if len(said) == 1:
                own_host.drop()
            return talk.exchange(b"b\n", PATIENCE_S).output.decode()

    assert pool.call(endpoint(own_host), task).endswith(" b")
    assert len(said) == 2


def test_programs_keep_to_themselves_and_errors_leave_the_conversation_open(
    two_hosts: list[Sshd], pool: Pool
) -> None:
    host = Host(endpoint(two_hosts[0]))
    with host_folder() as folder, converse(pool.link(host.endpoint), host) as talk:
        store = str(folder / "store")
        digest = hashlib.sha256(b"x").hexdigest()
        assert missing(talk, store, digest) == [digest]
        with pytest.raises(Unfit, match="its disk|failed|may not"):
            talk.ask("lay", program="store", store="/proc/nowhere", archive="", into="", files={})
        with pytest.raises(Unfit):
            talk.ask(
                "make", program="venv", venvs="/proc/nowhere", base="b", layer="", python="p", kit="", labels="",
                limit_s=1.0,
            )  # fmt: skip
        Path(store).mkdir()
        (Path(store) / digest).write_bytes(b"x")
        assert missing(talk, store, digest) == []


def missing(talk: Conversation, store: str, digest: str) -> list[str]:
    told: list[str] = talk.ask("missing", program="store", store=store, digests=[digest])["missing"]
    return told


def test_a_host_without_that_python_answers_with_another_and_without_any_is_unfit(
    two_hosts: list[Sshd], pool: Pool
) -> None:
    host = Host(endpoint(two_hosts[0]), "/nowhere/python")
    link = pool.link(host.endpoint)
    with converse(link, host) as talk:
        assert missing(talk, "/nowhere", "0" * 64) == ["0" * 64]
    with (
        converse(link, replace(host, python="/bin/false")) as talk,
        pytest.raises(Unfit, match="exit code 1"),
    ):
        missing(talk, "/nowhere", "0" * 64)
