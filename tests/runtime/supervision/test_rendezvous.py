"""Connections between supervisors: proven both ways, and lost when the other falls silent."""

from __future__ import annotations

import json
import queue
import socket
import threading

import pytest

from runtime.contract.errors import InfrastructureError
from runtime.supervision import rendezvous
from runtime.supervision.messages import Message, Stopping
from runtime.supervision.rendezvous import Connection, Listener, free_address, join, split
from tests.waiting import PATIENCE_S

Arrived = queue.SimpleQueue[tuple[int, Connection]]


@pytest.fixture
def address() -> str:
    return free_address("127.0.0.1:0")


def listen(address: str, arrived: Arrived, token: str = "t") -> Listener:
    return Listener(address, token, 2, lambda worker, connection: arrived.put((worker, connection)))


def test_messages_go_both_ways_in_order(address: str) -> None:
    arrived: Arrived = queue.SimpleQueue()
    listener = listen(address, arrived)
    theirs = join(address, "t", 3, PATIENCE_S)
    worker, ours = arrived.get(timeout=PATIENCE_S)
    assert (worker, theirs.attempt) == (3, 2)
    heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    ours.serve(heard.put, lost.put)
    theirs.serve(heard.put, lost.put)
    for n in range(100):
        theirs.send(Stopping(n, "x" * 10_000))
    assert [heard.get(timeout=PATIENCE_S) for _ in range(100)] == [
        Stopping(n, "x" * 10_000) for n in range(100)
    ]
    ours.send(Stopping(1, "back"))
    assert heard.get(timeout=PATIENCE_S) == Stopping(1, "back")
    ours.close()
    assert lost.get(timeout=PATIENCE_S) == "its connection closed"
    theirs.close()
    listener.close()


def test_one_that_falls_silent_is_lost(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_SILENT_S", 0.3)
    arrived: Arrived = queue.SimpleQueue()
    listener = listen(address, arrived)
    silent = join(address, "t", 1, PATIENCE_S)  # never serves: as if it were stopped
    _, ours = arrived.get(timeout=PATIENCE_S)
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    ours.serve(lambda message: None, lost.put)
    assert "said nothing" in lost.get(timeout=PATIENCE_S)
    silent.close()
    ours.close()
    listener.close()


def test_one_that_sends_rubbish_is_lost(address: str) -> None:
    arrived: Arrived = queue.SimpleQueue()
    listener = listen(address, arrived)
    theirs = join(address, "t", 1, PATIENCE_S)
    _, ours = arrived.get(timeout=PATIENCE_S)
    lost: queue.SimpleQueue[str] = queue.SimpleQueue()
    ours.serve(lambda message: None, lost.put)
    theirs._socket.sendall(b"rubbish\n")
    assert "no message" in lost.get(timeout=PATIENCE_S)
    ours.close()
    listener.close()


def test_a_listener_without_the_token_learns_nothing(address: str) -> None:
    seen: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    server = socket.create_server(split(address))

    def impostor() -> None:
        sock, _ = server.accept()
        sock.sendall(json.dumps({"challenge": "c"}).encode() + b"\n")
        seen.put(sock.recv(4096))
        sock.sendall(json.dumps({"proof": "made up"}).encode() + b"\n")
        server.close()

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(InfrastructureError, match="does not know this run's token"):
        join(address, "very-secret", 1, 0.5)
    thread.join()
    assert b"very-secret" not in seen.get()


def test_a_proof_serves_only_once(address: str) -> None:
    arrived: Arrived = queue.SimpleQueue()
    listener = listen(address, arrived)
    with socket.create_connection(split(address)) as first:
        challenge = json.loads(first.makefile().readline())["challenge"]
        proof = rendezvous._proof("t", "join", challenge, "mine", 1)
    with socket.create_connection(split(address)) as second, second.makefile() as lines:
        lines.readline()
        hello = {"worker": 1, "challenge": "mine", "proof": proof}  # overheard at the first
        second.sendall(json.dumps(hello).encode() + b"\n")
        assert "refused" in lines.readline()
    listener.close()


def test_addresses_of_both_families() -> None:
    assert split("host:1") == ("host", 1)
    assert split("[::1]:2") == ("::1", 2)
