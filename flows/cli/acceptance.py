"""`slicebench acceptance FILE`: does training save, stop and resume beside a sidecar, and at what cost?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.played import Direct, play, tell_end
from flows.cli.said import Json, say

if TYPE_CHECKING:
    from flows.recorded_through import Recorded
    from tasks.config.acceptance_turns import Session


def acceptance(
    file: Annotated[str, Parameter(help="Acceptance to play: a path, or a name in configs/acceptance/")],
    /,
    *,
    id: Annotated[
        str | None,
        Parameter(
            help="Name of this acceptance; one that was begun is continued. Default: the newest of the same file that "
            "has not come to its end, else a new one"
        ),
    ] = None,
    direct: Direct = False,
    json: Json = False,
) -> int:
    """Train with each variant, stop it once its checkpoints are complete, restart it, and say what that proves.

    Exit code 4: a variant costs more than the limit; 1: one did not resume, or what must be encrypted is not; 3:
    something did not run; docs/acceptance.md has all.
    """
    from tasks.stages.acceptance import open_acceptance, play_acceptance
    from tasks.stages.acceptance_plan import plan_session
    from tasks.stages.acceptance_program import standing

    # Refused before a bucket is looked into, or anything is started, wherever it would be played.
    plan_session(open_acceptance(file, id or "check"))
    session = open_acceptance(file, id)
    code, record = play(
        _recorded(session),
        lambda hands: play_acceptance(session, hands, say),
        direct=direct,
        standing=lambda: standing(session),
    )
    return tell_end(code, record, session.uri, list(_lines(record, session)), "the same command", json=json)


def _recorded(session: Session) -> Recorded:
    from flows.recorded_through import Recorded
    from tasks.config.envfile import left_to_environ
    from tasks.config.run_names import suite_stem
    from tasks.stages.acceptance_record import ACCEPTANCE_FILE

    return Recorded(
        "acceptance",
        "acceptance/adhoc",
        f"{suite_stem(session.file)} {session.id}",
        {"file": session.file, "id": session.id},
        session.uri,
        ACCEPTANCE_FILE,
        left_to_environ(session.config.env, session.env_files),
        [turn.run.run_id for turn in session.turns()],
    )


def _lines(record: Mapping[str, Any], session: Session) -> Iterator[str]:
    yield from record.get("summary") or ()
    yield from record.get("troubles") or ()
    if record.get("summary"):
        yield f"report: {session.uri}/report.html"
