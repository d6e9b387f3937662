"""The other processes of this port: each has a port of its own, where these ask it for what it alone has."""

from __future__ import annotations

import contextlib
import http.client
import re
from collections.abc import Callable, Mapping, Sequence

from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.passing import pass_through
from runtime.gcs_proxy.refusal import Refused, unavailable
from runtime.gcs_proxy.server import Answer, Client
from runtime.gcs_proxy.upstream import Origin, Pool
from runtime.gcs_proxy.wire import Headers

OWN = "/_peer/"
"""Where a process is asked for what is about itself. No bucket has such a name."""
_ASKED_AT = "x-gcs-proxy-asked-at"
_PATIENCE_S = 2.0
_SERIES = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


class Peers:
    """Those processes, by number; `index` is this one's."""

    def __init__(self, index: int, addresses: Sequence[tuple[str, int]]) -> None:
        self.index, self._addresses = index, list(addresses)
        self._pools = [Pool(Origin("http", *address)) for address in addresses]

    def holder(self, upload: str) -> int:
        """Returns the number of the process that began an upload; of those that none began, this one's."""
        number = upload.partition(".")[0]
        known = number.isascii() and number.isdigit() and int(number[:4]) < len(self._pools)
        return int(number[:4]) if known else self.index

    def pass_on(self, gate: Gateway, client: Client, number: int) -> None:
        """Has another process answer a request. Raises Refused, Closed."""
        told = client.request.headers.without((_ASKED_AT,))
        client.request.headers = Headers([*told, (_ASKED_AT, client.origin)])
        try:
            pass_through(gate.toward(self._pools[number]), client)
        except Refused as refused:
            raise unavailable(f"the process that has this upload does not answer: {refused}") from refused

    def silent(self) -> list[int]:
        """Returns the numbers of those that do not answer."""
        answering = self.ask_all("health")
        return [number for number in self._others if number not in answering]

    def ask_all(self, what: str) -> dict[int, str]:
        """Returns what the others answer, those that do."""
        found = {}
        for number in self._others:
            connection = http.client.HTTPConnection(*self._addresses[number], timeout=_PATIENCE_S)
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
                connection.request("GET", OWN + what)
                found[number] = connection.getresponse().read().decode()
        return found

    @property
    def _others(self) -> list[int]:
        return [number for number in range(len(self._addresses)) if number != self.index]


def for_peers(answer: Answer, own: Callable[[str, Client], None]) -> Answer:
    """Returns what answers at the port of this process: requests that were passed on to it, and what is about it."""

    def answer_passed_on(client: Client) -> None:
        if client.request.target.startswith(OWN):
            own(client.request.target.removeprefix(OWN), client)
            return
        client.asked_at = client.request.headers.get(_ASKED_AT)
        client.request.headers = client.request.headers.without((_ASKED_AT,))
        answer(client)

    return answer_passed_on


def merged(told: Mapping[int, str]) -> str:
    """Returns the numbers of several processes as one: each with the label `process`, those of one name together."""
    families: dict[str, list[str]] = {}
    comments: dict[str, list[str]] = {}
    for number, text in sorted(told.items()):
        family = ""
        for line in text.splitlines():
            if line.startswith("# "):
                family = line.split(" ")[2]
                if line not in comments.setdefault(family, []):
                    comments[family].append(line)
            elif found := _SERIES.fullmatch(line):
                labels = ",".join(filter(None, (f'process="{number}"', found["labels"])))
                families.setdefault(family, []).append(f"{found['name']}{{{labels}}} {found['value']}")
    lines = [line for family, its in comments.items() for line in (*its, *families.get(family, []))]
    return "\n".join(lines) + "\n"
