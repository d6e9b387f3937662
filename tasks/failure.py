"""What the UI shows of a run that failed: why, and the last lines of those who were there."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.names import LOGS_FOLDER
from tasks.artifacts import code_block, escaped, key_of, post_markdown
from tasks.stages.context import Run
from tasks.stages.logs import worker_logs

LINES = 100
"""How many of the last lines of each log are shown."""

_LOGS = 4
"""Of how many workers: a page that holds a thousand tails is read by nobody."""


def post_failure(run: Run, causes: Sequence[str]) -> None:
    """Leaves a page with the causes and the last lines of the workers' logs, escaped: logs may hold anything."""
    parts = ["## Why", *(f"- {escaped(cause)}" for cause in causes)]
    logs = list(worker_logs(run.folder).values())
    for name in logs[:_LOGS]:
        lines = (run.folder.read(name) or b"").decode(errors="replace").splitlines()
        parts += [f"## End of {escaped(name)}", code_block("\n".join(lines[-LINES:]))]
    if len(logs) > _LOGS:
        parts.append(f"{len(logs) - _LOGS} more logs are in")
        parts.append(code_block(f"{run.folder.uri}/{LOGS_FOLDER}"))
    post_markdown(run.say, key_of("failure", run.spec.suite_name), "\n\n".join(parts), "Why the run failed")
