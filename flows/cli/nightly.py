"""`slicebench nightly FILE`: one night of suites × targets × versions, from its runs to its report."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from runtime.contract.errors import ExitCode

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
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.cloud.storage import read_json
    from tasks.stages.nightly import open_night, play_night
    from tasks.stages.nightly_record import NIGHT_FILE
    from tasks.stages.nightly_report import summary_lines

    opened = open_night(file, night)
    try:
        with interrupting(say):
            record = play_night(opened, hands(direct=direct), say)
    except KeyboardInterrupt:
        say(
            "interrupted; go on with it by the same command"
            + (f" and --night {opened.date}" if not night else "")
        )
        if json:
            from tasks.cloud.storage import open_folder

            print_json(read_json(open_folder(opened.uri), NIGHT_FILE) or {})
        return ExitCode.INTERRUPTED
    for line in summary_lines(record):
        say(line)
    if record.site:
        say(f"series: {record.site}/index.html")
    say(f"report: {opened.uri}/report.html")
    sys.stderr.flush()
    if json:
        print_json(record.plain() | {"folder": opened.uri})
    return ExitCode(record.exit_code or 0)
