"""`slicebench nightly FILE`: one night of suites × targets × versions, from its runs to its report."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.config.nightly_cells import Night

File = Annotated[str, Parameter(help="Nightly to run: a path, or a name in configs/nightly/")]


def nightly(
    file: File,
    /,
    *,
    night: Annotated[
        str | None,
        Parameter(help="Its date; one that was begun is gone on with. Default: today, in its time zone"),
    ] = None,
    direct: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Without Prefect: nothing of it is in any UI"),
    ] = False,
    json: Json = False,
) -> int:
    """Run every cell of a nightly, judge it, and report. Called again for the same night it does what is missing.

    Exit code 4: something regressed; 3: something did not run; 1: a benchmark failed; docs/nightly.md has all.
    """
    from tasks.stages.nightly import open_night
    from tasks.stages.nightly_plan import plan_night, warnings_of

    opened = open_night(file, night)
    plan_night(opened)  # refused before anything is started, wherever it would be played
    say(*map(str, warnings_of(opened)))
    code, record = _played(file, opened, direct)
    if code is ExitCode.INTERRUPTED:
        say(f"interrupted; go on with it by the same command{'' if night else f' and --night {opened.date}'}")
    elif record.get("exit_code") is not None:
        for line in record.get("summary") or ():
            say(line)
        if record.get("site"):
            say(f"series: {record['site']}/index.html")
        say(f"report: {opened.uri}/report.html")
    sys.stderr.flush()
    if json:
        print_json({**record, "folder": opened.uri})
    return code


def _played(file: str, opened: Night, direct: bool) -> tuple[ExitCode, Mapping[str, Any]]:
    """Plays the night through a server here, else in this process; returns how it ended, with night.json."""
    if not direct:
        from flows.night_through import play_through_server
        from flows.watching import NoServer

        try:
            return play_through_server(file, opened, say)
        except NoServer as reason:
            if str(reason):
                say(f"{reason}; the night is played here")
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.cloud.storage import open_folder, read_json
    from tasks.stages.nightly import play_night
    from tasks.stages.nightly_record import NIGHT_FILE

    try:
        with interrupting(say):
            record = play_night(opened, hands(direct=direct), say)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED, read_json(open_folder(opened.uri), NIGHT_FILE) or {}
    return ExitCode(record.exit_code or 0), record.plain()
