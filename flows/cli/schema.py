"""`slicebench schema`: prints the JSON schema of a kind of file, for editors."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import cyclopts

from runtime.contract.errors import ExitCode


def schema(
    kind: Annotated[
        Literal["suite", "target", "nightly", "acceptance", "environment"],
        cyclopts.Parameter(help="Kind of file"),
    ],
    /,
) -> int:
    """Print the JSON schema of suites, targets, nightlies or environments, for editors that complete and check them."""
    from tasks.config import schemas

    made = {
        "suite": schemas.suite_schema,
        "target": schemas.target_schema,
        "nightly": schemas.nightly_schema,
        "acceptance": schemas.acceptance_schema,
        "environment": schemas.environment_schema,
    }
    print(json.dumps(made[kind](), indent=1))
    return ExitCode.DONE
