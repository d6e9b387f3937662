"""What a container runs to show that a worker could work in it: in a build, or as a pod on a cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

JAX_AND_ORBAX = ("jax", "orbax.checkpoint")
OF_THE_PROXY = ("cryptography", "grpc", "h11", "tink", "runtime.gcs_proxy.serve")
"""Modules of the encrypting proxy, which may run in the workers' image."""


def smoke_command(
    output: str,
    resolve: Sequence[str] = ("localhost",),
    name: str | None = None,
    imports: Sequence[str] = (),
) -> list[str]:
    """Returns the command. `output`: folder or bucket it writes to, `resolve`: names that must be known in there,
    `name`: of the file that it writes, `imports`: modules in the place of JAX and Orbax.
    """
    named = ["--name", name] if name else []
    modules = ["--import", *imports] if imports else []
    return ["python", "-m", "runtime.smoke", "--output", output, *named, *modules, "--resolve", *resolve]


def smoke_steps(said: str) -> list[dict[str, Any]]:
    """Returns the steps that a container told of in what it said."""
    found = []
    for line in said.splitlines():
        try:
            step = json.loads(line) if line.startswith("{") else None
        except ValueError:
            continue
        if isinstance(step, dict) and {"step", "ok", "result"} <= step.keys():
            found.append(step)
    return found


def smoke_failures(said: str) -> str:
    """Returns in words what did not work in a container; empty: nothing of it says so."""
    return "; ".join(f"{one['step']}: {one['result']}" for one in smoke_steps(said) if not one["ok"])
