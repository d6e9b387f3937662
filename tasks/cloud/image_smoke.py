"""What a container runs to show that a worker could work in it: in a build, or as a pod on a cluster."""

from __future__ import annotations

from collections.abc import Sequence


def smoke_command(output: str, resolve: Sequence[str] = ("localhost",)) -> list[str]:
    """Returns the command. `output`: folder or bucket it writes to, `resolve`: names that must be known in there."""
    return ["python", "-m", "runtime.smoke", "--output", output, "--resolve", *resolve]
