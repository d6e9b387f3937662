"""`slicebench nightly FILE`: one night of suites × targets × versions, from its runs to its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.played import Direct, play, tell_end
from flows.cli.said import Json, say

if TYPE_CHECKING:
    from flows.recorded_through import Recorded
    from tasks.config.nightly_cells import Night

File = Annotated[str, Parameter(help="Nightly to run: a path, or a name in configs/nightly/")]

DEPLOYMENT = "nightly/weeknights"
"""It has a schedule for one file; any other one may be played by it."""


def nightly(
    file: File,
    /,
    *,
    night: Annotated[
        str | None,
        Parameter(help="Its date; a night that was begun is continued. Default: today, in its time zone"),
    ] = None,
    direct: Direct = False,
    json: Json = False,
) -> int:
    """Run every cell of a nightly, judge it, and report. Called again for the same night it does what is missing.

    Exit code 4: something regressed; 3: something did not run; 1: a benchmark failed; docs/nightly.md has all.
    """
    from tasks.stages.nightly import open_night, play_night
    from tasks.stages.nightly_plan import plan_night, warnings_of

    opened = open_night(file, night)
    plan_night(opened)  # refused before anything is started, wherever it would be played
    say(*map(str, warnings_of(opened)))
    code, record = play(_recorded(file, opened), lambda hands: play_night(opened, hands, say), direct=direct)
    again = f"the same command{'' if night else f' with --night {opened.date}'}"
    return tell_end(code, record, opened.uri, list(_lines(record, opened)), again, json=json)


def _recorded(file: str, night: Night) -> Recorded:
    from flows.recorded_through import Recorded
    from tasks.config.envfile import left_to_environ
    from tasks.config.locate import locate
    from tasks.config.run_names import suite_stem
    from tasks.stages.nightly_record import NIGHT_FILE

    hooks = [one.url_env for one in night.config.alerts.webhooks if one.url_env]
    return Recorded(
        "night",
        DEPLOYMENT,
        f"{suite_stem(file)} {night.date}",
        {"file": str(locate(file, "nightly").absolute()), "night": night.date},
        night.uri,
        NIGHT_FILE,
        [*left_to_environ(night.config.env, night.env_files), *hooks],
        [run.run_id for cell in night.cells() for run in (*night.runs(cell), night.again(cell))],
    )


def _lines(record: Mapping[str, Any], night: Night) -> Iterator[str]:
    yield from record.get("summary") or ()
    if record.get("site"):
        yield f"series: {record['site']}/index.html"
    yield f"report: {night.uri}/report.html"
