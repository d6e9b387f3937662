"""`slicebench schema`: prints the JSON schema of a kind of file, for editors."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import cyclopts

from runtime.contract.errors import ExitCode


def schema(
    kind: Annotated[Literal["suite", "target"], cyclopts.Parameter(help="Kind of file")],
    /,
) -> int:
    """Print the JSON schema of suites or targets, so that an editor completes and checks them."""
    from tasks.config import schemas

    made = schemas.suite_schema() if kind == "suite" else schemas.target_schema()
    print(json.dumps(made, indent=1))
    return ExitCode.DONE
