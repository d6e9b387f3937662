"""Alerts are written down first, sent once by each channel, and kept for the next night where one was not taken."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, open_folder
from tasks.cloud.webhook import post
from tasks.config.nightly import NightlyConfig
from tasks.history.alerts import Event
from tasks.stages.nightly_alerts import (
    FORGOTTEN_S,
    Channel,
    channels_of,
    read_events,
    send_unsent,
    write_events,
)

EVENT = Event("series/s1", 1, "n", "2026-11-29", "regressed", "save", "+10 %", "2026-11-29", 1000.0, 0.1)


class Receiver:
    """A webhook's other end: keeps what it got; answers the codes that it is given first, then 200."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.codes: list[int] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code = outer.codes.pop(0) if outer.codes else 200
                if code == 200:
                    outer.got.append(content)
                self.send_response(code)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=sesame"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def history(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "history"))


def test_a_message_is_tried_again_where_that_may_help_and_never_elsewhere(receiver: Receiver) -> None:
    pauses: list[float] = []
    receiver.codes = [503, 429]
    post(receiver.url, {"a": 1}, "the hook", pauses.append)
    assert (receiver.got, len(pauses)) == ([{"a": 1}], 2)
    for codes, told in (
        ([404], "it answered 404"),
        ([302], "it answered 302"),
        ([500] * 3, "it answered 500"),
    ):
        receiver.codes = list(codes)
        with pytest.raises(InfrastructureError, match=f"the hook did not take the message: {told}"):
            post(receiver.url, {}, "the hook", pauses.append)
        assert receiver.codes == []


@pytest.mark.parametrize(
    "url", ["", "sesame", "ftp://sesame/x", "http://127.0.0.1:1/sesame", "http://[sesame", "http://"]
)
def test_what_cannot_be_reached_is_told_without_its_address(url: str) -> None:
    with pytest.raises((InfrastructureError, ValueError)) as trouble:
        post(url, {}, "the webhook in $HOOK", lambda s: None)
    assert isinstance(trouble.value, InfrastructureError)
    assert "the webhook in $HOOK" in str(trouble.value)
    assert "sesame" not in str(trouble.value)


def test_events_are_written_once_and_read_back_in_their_order(history: Folder) -> None:
    later = Event("series/s1", 2, "n", "2026-11-30", "regressed", "save", "back", "2026-11-29", 2000.0)
    assert write_events(history, [EVENT]) == [EVENT]
    assert write_events(history, [EVENT, later]) == [later]
    assert read_events(history, "n") == [EVENT, later]
    assert read_events(history, "other") == []
    history.child("alerts").child("n").write("zzz.json", b"{torn")
    assert read_events(history, "n") == [EVENT, later]


def test_each_channel_gets_an_event_once_and_what_it_did_not_take_the_next_time(history: Folder) -> None:
    got: list[str] = []
    down = True

    def second(event: Event) -> None:
        if down:
            raise InfrastructureError("second is down")
        got.append(f"second {event.kind}")

    channels = [Channel("first", lambda event: got.append(f"first {event.kind}")), Channel("second", second)]
    later = Event("series/s1", 2, "n", "2026-11-30", "regressed", "save", "back", "2026-11-29", 2000.0)
    events = [EVENT, later]
    assert send_unsent(history, events, channels, 3000.0) == ["an alert could not be sent: second is down"]
    down = False
    assert send_unsent(history, events, channels, 3000.0) == []
    assert send_unsent(history, events, channels, 3000.0) == []
    assert got == ["first opened", "first closed", "second opened", "second closed"]
    assert send_unsent(history, events, [Channel("third", second)], 3000.0 + FORGOTTEN_S) == []
    assert len(got) == 4


def test_webhooks_take_their_address_from_where_the_file_says(
    tmp_path: Path, history: Folder, receiver: Receiver
) -> None:
    (tmp_path / "hook").write_text(f"{receiver.url}\n")
    hooks = [
        {"url_env": "HOOK"},
        {"url_file": "hook", "format": "slack"},
        {"url_env": "NOSUCH"},
        {"url_file": "nosuch"},
    ]
    config = NightlyConfig.model_validate({"name": "n", "suites": ["a"], "alerts": {"webhooks": hooks}})
    troubles = send_unsent(
        history, [EVENT], channels_of(config, str(tmp_path), {"HOOK": receiver.url}), 1000.0
    )
    assert receiver.got == [EVENT.message(), {"text": EVENT.sentence()}]
    assert [told.split(": ", 1)[1] for told in troubles] == [
        "the webhook in $NOSUCH is not there",
        "the webhook in nosuch cannot be read: No such file or directory",
    ]
