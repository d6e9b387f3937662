"""What commands that play many runs have in common: through a server where one is up, else here; then how it ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from cyclopts import Parameter

from flows.cli.said import print_json, say
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from flows.recorded_through import Recorded
    from tasks.stages.nightly_run import Hands

Direct = Annotated[
    bool, Parameter(negative="", show_default=False, help="Without Prefect: nothing of it is in any UI")
]


class Record(Protocol):
    """What is known of something that was played here."""

    @property
    def exit_code(self) -> int | None: ...

    def plain(self) -> dict[str, Any]:
        """Returns all of it as JSON has it."""


def play(
    one: Recorded, here: Callable[[Hands], Record], *, direct: bool
) -> tuple[ExitCode, Mapping[str, Any]]:
    """Plays it through a server here, unless `direct`, else in this process; returns how it ended, with its record."""
    if not direct:
        from flows.recorded_through import play_through_server
        from flows.watching import NoServer

        try:
            return play_through_server(one, say)
        except NoServer as reason:
            if str(reason):
                say(f"{reason}; the {one.what} is played here")
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.cloud.storage import open_folder, read_json

    try:
        with interrupting(say):
            record = here(hands(direct=direct))
    except KeyboardInterrupt:
        written = read_json(open_folder(one.uri), one.file)
        return ExitCode.INTERRUPTED, written if isinstance(written, Mapping) else {}
    return ExitCode(record.exit_code or 0), record.plain()


def tell_end(
    code: ExitCode, record: Mapping[str, Any], uri: str, lines: Sequence[str], again: str, *, json: bool
) -> int:
    """Says how it ended; returns the exit code. `lines`: what it came to; `again`: by what one goes on with it."""
    if code is ExitCode.INTERRUPTED:
        say(f"interrupted; go on with it by {again}")
    elif record.get("exit_code") is not None:
        say(*lines)
    sys.stderr.flush()
    if json:
        print_json({**record, "folder": uri})
    return code
