"""The `slicebench` command: which word runs which function, and how errors become messages and exit codes."""

from __future__ import annotations

import json
import os
import sys

import cyclopts

from runtime.contract.errors import BadInput, ExitCode, SlicebenchError

app = cyclopts.App(
    name="slicebench",
    help="Measures how fast JAX programs save and restore checkpoints: build, provision, run, collect, tear down.",
    version_flags=["--version"],
)

# Each function is imported when its word is used, so that one command never pays for another's libraries.
COMMANDS = {
    "run": "flows.cli.run:run",
    "check": "flows.cli.check:check",
    "plan": "flows.cli.plan:plan",
    "runs": "flows.cli.runs:runs",
    "report": "flows.cli.report:report",
    "logs": "flows.cli.logs:logs",
    "leases": "flows.cli.leases:leases",
    "reap": "flows.cli.leases:reap",
    "up": "flows.cli.up:up",
    "down": "flows.cli.up:down",
    "schema": "flows.cli.schema:schema",
}
for _word, _function in COMMANDS.items():
    app.command(_function, name=_word)


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code. Errors are printed, one problem a line, never as tracebacks."""
    words = sys.argv[1:] if argv is None else argv
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code or 0)
    except cyclopts.CycloptsError as error:
        return _refuse(BadInput(str(error), fix="see slicebench --help"), words)
    except SlicebenchError as error:
        return _refuse(error, words)
    except KeyboardInterrupt:
        print("slicebench: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output left (`slicebench runs | head`); nothing more can be told it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE


def _refuse(error: SlicebenchError, words: list[str]) -> int:
    """Tells the error: to people on stderr, and with --json as one object on stdout."""
    if "--json" in words:
        print(json.dumps({"error": str(error), "exit_code": int(error.exit_code)}))
    for line in str(error).splitlines():
        print(f"slicebench: {line}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
