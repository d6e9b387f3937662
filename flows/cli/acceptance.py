"""`slicebench acceptance FILE`: does training save, stop and resume beside a sidecar, and at what cost?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.config.acceptance_turns import Session


def acceptance(
    file: Annotated[str, Parameter(help="Acceptance to play: a path, or a name in configs/acceptance/")],
    /,
    *,
    id: Annotated[
        str | None,
        Parameter(
            help="Name of this passage; one that was begun is gone on with. Default: the newest of the same file that "
            "has not come to its end, else a new one"
        ),
    ] = None,
    direct: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Without Prefect: nothing of it is in any UI"),
    ] = False,
    json: Json = False,
) -> int:
    """Train under each variant, stop it once its checkpoints are complete, start it again, and say what that proves.

    Exit code 4: a variant costs more than the limit; 1: one did not resume, or what must be encrypted is not; 3:
    something did not run; docs/acceptance.md has all.
    """
    from tasks.stages.acceptance import open_acceptance
    from tasks.stages.acceptance_plan import plan_session

    session = open_acceptance(file, id)
    plan_session(session, file)  # refused before anything is started, wherever it would be played
    code, record = _played(file, session, direct)
    if code is ExitCode.INTERRUPTED:
        say("interrupted; go on with it by the same command")
    elif record.get("exit_code") is not None:
        say(*(record.get("summary") or ()), *(record.get("troubles") or ()))
        if record.get("summary"):
            say(f"report: {session.uri}/report.html")
    sys.stderr.flush()
    if json:
        print_json({**record, "folder": session.uri})
    return code


def _played(file: str, session: Session, direct: bool) -> tuple[ExitCode, Mapping[str, Any]]:
    """Plays it through a server here, else in this process; returns how it ended, with acceptance.json."""
    if not direct:
        from flows.acceptance_through import play_through_server
        from flows.watching import NoServer

        try:
            return play_through_server(file, session, say)
        except NoServer as reason:
            if str(reason):
                say(f"{reason}; the acceptance is played here")
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.cloud.storage import open_folder
    from tasks.stages.acceptance import play_acceptance
    from tasks.stages.acceptance_record import read_record

    try:
        with interrupting(say):
            record = play_acceptance(session, file, hands(direct=direct), say)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED, read_record(open_folder(session.uri))
    return ExitCode(record.exit_code or 0), record.plain()
