"""An acceptance through a Prefect server here: a flow run of the deployment, which its UI shows and can retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.night_through import Written, played_through
from flows.watching import Say
from runtime.contract.errors import ExitCode
from tasks.config.acceptance_turns import Session
from tasks.config.locate import locate
from tasks.stages.acceptance_record import ACCEPTANCE_FILE

DEPLOYMENT = "acceptance/adhoc"


def play_through_server(file: str, session: Session, say: Say) -> tuple[ExitCode, Mapping[str, Any]]:
    """Has an acceptance played as a flow run, tells how it goes, and returns how it ended, with acceptance.json.

    See flows.night_through.played_through.
    """
    parameters = {"file": str(locate(file, "acceptance").absolute()), "id": session.id}
    bare = [one for one in session.config.env if "=" not in one]
    return played_through(
        DEPLOYMENT, session.name, parameters, Written(session.uri, ACCEPTANCE_FILE, "acceptance"), bare, say
    )
