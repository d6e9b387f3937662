"""Whose program connects is told by the kernel: of sockets that a program has, and of no others."""

from __future__ import annotations

import os
import socket

import pytest

from runtime.gcs_proxy.neighbours import is_of_this_user, owner

_ROW = "   1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  {user}        0 {inode} 1 0 20 4 -1"
THEIRS, OURS = "0100007F:C350", "0100007F:2379"


def row(local: str = THEIRS, remote: str = OURS, state: str = "01", user: int = 1000, inode: int = 77) -> str:
    return _ROW.format(local=local, remote=remote, state=state, user=user, inode=inode)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (row(), 1000),
        (row(state="05"), 1000),  # closed for sending, and still read from
        (row(user=0), 0),
        (row(user=0, inode=0), None),  # what nobody has any more is called root's
        (row(state="06", user=0, inode=0), None),
        (row(state="02"), None),  # not connected: it may be a later one of the same port
        (row(local=OURS, remote=THEIRS), None),  # our own end
        (row(remote="0100007F:237A"), None),
        (row(local="0200007F:C350"), None),
    ],
)
def test_the_one_who_has_the_socket_is_its_owner(line: str, found: int | None) -> None:
    other = row(local="0100007F:0001", user=5)
    assert owner([other, line], THEIRS, OURS) == found


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_program_of_this_user_is_known_while_it_is_there(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        client = socket.create_connection(server.getsockname()[:2])
        connection, _ = server.accept()
        with connection:
            assert is_of_this_user(connection)
            client.shutdown(socket.SHUT_WR)
            assert is_of_this_user(connection)
            client.close()
            assert not is_of_this_user(connection)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes sockets of another user")
def test_a_program_of_another_user_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        os.seteuid(65534)
        try:
            client = socket.socket()
        finally:
            os.seteuid(0)
        with client:
            client.connect(server.getsockname())
            connection, _ = server.accept()
            with connection:
                assert not is_of_this_user(connection)
