"""What commands that play many runs have in common: through a server where one is up, else here; then how it ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from cyclopts import Parameter

from flows.cli.said import print_json, say
from runtime.contract.errors import ExitCode, InfrastructureError

if TYPE_CHECKING:
    from flows.recorded_through import Recorded
    from tasks.stages.nightly_run import Hands

Direct = Annotated[
    bool, Parameter(negative="", show_default=False, help="Run without Prefect; nothing shows in its UI")
]


class Record(Protocol):
    """What is known of something that was played here."""

    @property
    def exit_code(self) -> int | None: ...

    def plain(self) -> dict[str, Any]:
        """Returns all of it as JSON has it."""


def play(
    one: Recorded,
    here: Callable[[Hands], Record],
    *,
    direct: bool,
    standing: Callable[[], Sequence[str]] = tuple,
) -> tuple[ExitCode, Mapping[str, Any]]:
    """Plays it through a server here, unless `direct`, else in this process; returns how it ended, with its record.

    `standing` says what may be left beside its runs of what whoever interrupted it here did not wait for.
    """
    if not direct:
        from flows.recorded_through import play_through_server
        from flows.watching import NoServer

        try:
            return play_through_server(one, say)
        except NoServer as reason:
            if str(reason):
                say(f"{reason}; the {one.what} runs here")
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.cloud.storage import open_folder, read_json

    try:
        with interrupting(say):
            record = here(hands(direct=direct))
    except KeyboardInterrupt:
        written = read_json(open_folder(one.uri), one.file)
        known: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
        if not (left := [*_runs_standing(one), *standing()]):
            return ExitCode.INTERRUPTED, known
        return ExitCode.LEAKED, {**known, "exit_code": int(ExitCode.LEAKED), "left": "; ".join(left)}
    return ExitCode(record.exit_code or 0), record.plain()


def _runs_standing(one: Recorded) -> Iterator[str]:
    """Says what its runs still have, whose end whoever interrupted it did not wait for."""
    from tasks.leases.lease import State
    from tasks.leases.made import made_under, things, told
    from tasks.leases.opening import the_ledger
    from tasks.leases.stopped import REAP

    folders = {f"{one.uri.rpartition('/')[0]}/{run}" for run in one.runs}
    try:
        leases = the_ledger().listing().leases
    except InfrastructureError as error:
        yield f"interrupted, and what is left is not known: {error}; {REAP}"
        return
    # What nobody owns was left standing on purpose, unless it was to go.
    left = [
        lease
        for lease in leases
        if lease.folder in folders
        and (lease.owner is not None or lease.state in (State.RELEASING, State.LEAKED))
        and lease.state is not State.GONE
    ]
    if not left:
        return
    runs = ", ".join(sorted({lease.run_id or lease.name for lease in left}))
    made = told(things(ref for lease in left for ref in made_under(lease)))
    yield f"interrupted before all was given back: {runs} still has {made}; {REAP}"


def tell_end(
    code: ExitCode, record: Mapping[str, Any], uri: str, lines: Sequence[str], again: str, *, json: bool
) -> int:
    """Says how it ended; returns the exit code. `lines`: what it came to; `again`: by what one goes on with it."""
    if code is ExitCode.INTERRUPTED or "left" in record:
        say(f"interrupted; to go on, run {again}")
        if "left" in record:
            say(f"slicebench: {record['left']}")
    elif record.get("exit_code") is not None:
        say(*lines)
    sys.stderr.flush()
    if json:
        print_json({**record, "folder": uri})
    return code
