"""Writes alerts down before they are sent, sends what was not sent yet, and remembers who has got what."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runtime.contract.errors import InfrastructureError, Problem
from runtime.contract.record import record_of
from runtime.contract.yamlfile import place_of
from tasks.cloud.storage import Folder, is_there, read_json
from tasks.cloud.webhook import checked_address, post
from tasks.config.load import root_of
from tasks.config.nightly import NightlyConfig, Webhook
from tasks.config.nightly_cells import Night, folder_at
from tasks.history.alerts import Event

ALERTS_FOLDER = "alerts"

FORGOTTEN_S = 7 * 86400.0
"""What nobody took for so long is not sent any more: it is in the reports."""

Send = Callable[[Event], None]
"""Raises InfrastructureError when the event was not taken."""


@dataclass(frozen=True)
class Channel:
    """A way by which alerts are told. `name` says which, without what is secret, and is the same every night."""

    name: str
    send: Send


def channels_of(config: NightlyConfig, base: str, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Returns the webhooks of a nightly. Where one's address is missing, sending says so."""
    return [_channel(one, base, environ) for one in config.alerts.webhooks]


def unaddressed(night: Night, environ: Mapping[str, str] = os.environ) -> list[Problem]:
    """Returns the webhooks of a night that have no address, each at its place in the file."""
    root = root_of(Path(night.file)) if night.file else None
    found = []
    for number, webhook in enumerate(night.config.alerts.webhooks):
        field = "url_env" if webhook.url_env else "url_file"
        place = place_of(root, ("alerts", "webhooks", number, field)) if root else None
        try:
            checked_address(_url(webhook, night.base, environ), _named(webhook))
        except InfrastructureError as error:
            there = f"set {webhook.url_env}" if webhook.url_env else "write that file"
            fix = f"{there} where the night is played, or take the webhook out"
            found.append(Problem("error", place, str(error), "nobody would be told by it", fix))
    return found


def _channel(webhook: Webhook, base: str, environ: Mapping[str, str]) -> Channel:
    named = _named(webhook)

    def send(event: Event) -> None:
        url = _url(webhook, base, environ)
        slack = webhook.format == "slack"
        post(url, {"text": event.sentence()} if slack else event.message(), named)

    return Channel(named, send)


def _named(webhook: Webhook) -> str:
    return f"the webhook in ${webhook.url_env}" if webhook.url_env else f"the webhook in {webhook.url_file}"


def _url(webhook: Webhook, base: str, environ: Mapping[str, str]) -> str:
    if webhook.url_env:
        url = environ.get(webhook.url_env, "").strip()
    else:
        try:
            url = Path(folder_at(webhook.url_file, base, "")).read_text().strip()
        except OSError as error:
            raise InfrastructureError(
                f"{_named(webhook)} cannot be read: {error.strerror or error}"
            ) from error
        except UnicodeDecodeError as error:
            raise InfrastructureError(f"{_named(webhook)} cannot be read: it is not text") from error
    if not url:
        raise InfrastructureError(f"{_named(webhook)} is not there")
    return url


def read_events(history: Folder, nightly: str) -> list[Event]:
    """Returns all alerts of a nightly that were ever written down, in their order. One that is damaged is left out."""
    folder = history.child(ALERTS_FOLDER).child(nightly)
    found = []
    for name in folder.names():
        if name.endswith(".json") and "/" not in name:
            try:
                found.append(record_of(Event, read_json(folder, name)))
            except TypeError:
                continue
    return sorted(found, key=lambda event: (event.at, event.number))


def write_events(history: Folder, events: Sequence[Event]) -> list[Event]:
    """Writes events down; returns those that nobody else had written meanwhile."""
    new = []
    for event in events:
        folder = history.child(ALERTS_FOLDER).child(event.nightly)
        content = json.dumps({"version": 1, **asdict(event)}, indent=1, sort_keys=True).encode()
        if folder.create(f"{event.id}.json", content):
            new.append(event)
    return new


def send_unsent(
    history: Folder, events: Sequence[Event], channels: Sequence[Channel], now: float
) -> list[str]:
    """Sends by each channel what it did not take yet; returns what went wrong. That is tried again next night."""
    troubles: dict[str, Any] = {}
    for event in events:
        folder = history.child(ALERTS_FOLDER).child(event.nightly)
        for channel in channels:
            marker = f"sent/{event.id}-{hashlib.sha256(channel.name.encode()).hexdigest()[:8]}"
            if event.at < now - FORGOTTEN_S or channel.name in troubles or is_there(folder, marker):
                continue
            try:
                channel.send(event)
                folder.write(marker, channel.name.encode())
            except InfrastructureError as error:
                # A channel that is down keeps the rest waiting, in their order.
                troubles[channel.name] = str(error)
    return [f"an alert could not be sent: {trouble}" for trouble in troubles.values()]
