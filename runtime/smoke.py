"""Says whether a worker could work in here: names are resolved, JAX and Orbax imported, the output written to."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.contract.errors import ExitCode
from runtime.output import placing

RESOLVE_S = 60.0
"""How long a name is asked for: those of pods are known a while after the pods began."""


def main(argv: Sequence[str] | None = None) -> int:
    """Tries all of it, prints one JSON object a line for each step, and fails when one of them did."""
    parser = argparse.ArgumentParser(prog="python -m runtime.smoke", description=__doc__)
    parser.add_argument("--output", required=True, help="folder or bucket that a run would write to")
    parser.add_argument("--resolve", metavar="NAME", nargs="*", default=[], help="names to look up")
    parser.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        nargs="+",
        default=["jax", "orbax.checkpoint"],
        help="to import",
    )
    parser.add_argument("--name", default="smoke.json", help="file that is written there")
    asked = parser.parse_args(argv)
    steps: dict[str, Callable[[], str]] = {
        f"resolve {name}": lambda name=name: _resolve(name)  # type: ignore[misc]
        for name in asked.resolve
    }
    steps |= {
        f"import {module}": lambda module=module: _imported(module)  # type: ignore[misc]
        for module in asked.modules
    }
    told = [_tried(step, action) for step, action in steps.items()]
    told.append(_tried(f"write to {asked.output}", lambda: _write(asked.output, asked.name, told)))
    return ExitCode.DONE if all(one["ok"] for one in told) else ExitCode.INFRASTRUCTURE


def _tried(step: str, action: Callable[[], str]) -> dict[str, object]:
    """Takes a step, and says what came of it."""
    began = time.monotonic()
    try:
        ok, result = True, action()
    except Exception as error:  # noqa: BLE001 what fails here is the finding
        ok, result = False, f"{type(error).__name__}: {error}"
    said = {"step": step, "ok": ok, "result": result, "seconds": round(time.monotonic() - began, 3)}
    print(json.dumps(said), flush=True)
    return said


def _imported(module: str) -> str:
    found = importlib.import_module(module)
    return str(getattr(found, "__version__", "there"))


def _resolve(name: str) -> str:
    give_up = time.monotonic() + RESOLVE_S
    while True:
        try:
            return ", ".join(sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None)}))
        except socket.gaierror:
            if time.monotonic() >= give_up:
                raise
            time.sleep(1.0)


def _write(output: str, name: str, told: list[dict[str, object]]) -> str:
    about = {"host": platform.node(), "python": platform.python_version(), "steps": told}
    with tempfile.TemporaryDirectory() as scratch, placing(output, name, Path(scratch)) as file:
        file.write_text(json.dumps(about))
    return f"{output}/{name}"


if __name__ == "__main__":
    sys.exit(main())
