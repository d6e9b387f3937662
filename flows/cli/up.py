"""`slicebench up` and `down`: a Prefect server with UI, workers, deployments and schedule, here."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.said import say
from flows.cli.wrong_flags import checked_range
from flows.serving import children, place
from runtime.contract.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from flows.serving.station import Station

_NOW = signal.SIGUSR1
"""What `down --now` sends: cancel what runs, however often it was asked to go down before."""


def up(
    *,
    port: Annotated[int, Parameter(help="Port of the server and its UI, on loopback")] = 4200,
) -> int:
    """Start a Prefect server with UI, workers, deployments and schedule here; runs until Ctrl-C."""
    checked_range("--port", port, 1, 65535)
    if (found := children.clear_leftovers(say)) is not None:
        say(f"up already, by process {found.owner.pid}: {_ui(found.api_url)} (stop it: slicebench down)")
        return ExitCode.DONE
    from flows.serving.ports import refuse_taken_port

    refuse_taken_port(port)
    from tasks.stages.refusals import refuse_unwritable_home

    refuse_unwritable_home()

    from flows.serving.sole import only_one

    with only_one():
        return _serve(port)


def _serve(port: int) -> int:
    from flows.api import PrefectApi
    from flows.serving.drain import drain
    from flows.serving.station import StaysDown, raise_up

    signals = _Signals()
    say("starting a Prefect server, its workers and deployments …")
    try:
        station = raise_up(port, say, signals.heard.is_set)
    except Interrupted:
        say("down")
        return ExitCode.INTERRUPTED
    try:
        _welcome(station)
        while not signals.heard.wait(1.0):
            station.look()
        with PrefectApi(station.server) as api:
            drain(api, station.look, lambda: signals.count - 1, say)
    except StaysDown as error:
        say(str(error))
        heard = min(signals.count, 1)  # whoever asked to cancel what runs need not ask again
        station.outlast_runs(lambda: signals.count > heard)
        return ExitCode.INFRASTRUCTURE
    finally:
        station.stop()
    say("down")
    return ExitCode.DONE


def down(
    *,
    now: Annotated[bool, Parameter(help="Cancel runs instead of waiting for them", negative="")] = False,
) -> int:
    """Stop what `slicebench up` started; waits until running benchmarks have ended."""
    found = children.clear_leftovers(say)
    if found is None:
        say("nothing is up")
        return ExitCode.DONE
    owner = found.owner.found()
    if owner is not None:
        owner.send_signal(_NOW if now else signal.SIGTERM)
        say(
            f"asked process {owner.pid} to go down"
            + ("" if now else " once nothing runs any more (at once: --now)")
        )
    while found.owner.found() is not None:
        time.sleep(0.2)
    left = [child for child in found.children if child.found() is not None]
    for child in left:
        children.stop(child)
    place.forget_up()
    return ExitCode.DONE


class _Signals:
    """Counts SIGINT and SIGTERM from now on, also where a script started us deaf to SIGINT."""

    def __init__(self) -> None:
        self.count = 0
        self.heard = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, _NOW):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.count = max(self.count, 2) if number == _NOW else self.count + 1
        self.heard.set()


def _welcome(station: Station) -> None:
    """Says where it is, how to get in, and what will happen by itself."""
    from flows.api import PrefectApi

    with PrefectApi(station.server) as api:
        scheduled = api.schedules()
    say(f"up: {_ui(station.server.api_url)}")
    say(
        f"log in with the line in {place.auth_file()}; on the command line: "
        f"PREFECT_API_URL={station.server.api_url} PREFECT_API_AUTH_STRING=$(cat {place.auth_file()})"
    )
    for deployment, schedule in scheduled:
        say(f"scheduled: {deployment}, {schedule}")
    say("start a run: slicebench run quickstart, or by the form of benchmark/adhoc in the UI; stop: Ctrl-C")


def _ui(api_url: str) -> str:
    return api_url.removesuffix("/api")
