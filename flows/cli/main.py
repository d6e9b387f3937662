"""The `slicebench` command: which word runs which function, and how errors become messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from flows.cli.outlets import Unwritable, let_go_of_stdout, outlets
from flows.said import aimed, aiming
from runtime.contract.errors import BadInput, ExitCode, SlicebenchError, worst
from tasks.cloud.waits import telling

# Python looks twice through all objects before it ends, which takes a quarter of a second after a run; what is frozen
# is not looked through.
atexit.register(gc.freeze)

_GARBAGE = 20_000
"""How many objects more than before let Python look for garbage. It would at 700, and what imports make is none: that
takes a tenth of a short command."""

_NEGATIVE_LENGTH = re.compile(r"-\d[\d.]*[a-z]+")

if TYPE_CHECKING:
    import cyclopts

    app: cyclopts.App

# word → (function, what it does). Each function is imported when its word is used, so that one command never pays for
# another's libraries; the summary stands here so that --help need not import any.
COMMANDS = {
    "run": ("flows.cli.run:run", "Run one suite on one target: the whole pipeline."),
    "check": ("flows.cli.check:check", "Say whether suite and target files are right. Makes nothing."),
    "plan": ("flows.cli.plan:plan", "Say what a run would make, use and cost. Makes nothing."),
    "nightly": ("flows.cli.nightly:nightly", "Run a night of suites, targets and versions, and judge it."),
    "acceptance": (
        "flows.cli.acceptance:acceptance",
        "Say whether training survives a stop with a sidecar beside it, and what that costs.",
    ),
    "runs": ("flows.cli.runs:runs", "List past runs."),
    "report": ("flows.cli.report:report", "Show a run's results and where its report lies."),
    "compare": ("flows.cli.compare:compare", "Compare two runs, repeat against repeat."),
    "logs": ("flows.cli.logs:logs", "Show what the workers of a run wrote."),
    "explain": ("flows.cli.explain:explain", "Say what state a run is in, why, and what to do next."),
    "doctor": (
        "flows.cli.doctor:doctor",
        "Look for what would stop a run here or on a target, and how to fix it.",
    ),
    "bisect": ("flows.cli.bisect:bisect", "Find the commit or version that made a series slower."),
    "leases": ("flows.cli.leases:leases", "List what is held on hardware, and by whom."),
    "reap": ("flows.cli.leases:reap", "Give back what outlived its lease."),
    "up": ("flows.cli.up:up", "Start a Prefect server with UI, deployments, schedule and reaper, here."),
    "down": ("flows.cli.up:down", "Stop what `up` started."),
    "schema": ("flows.cli.schema:schema", "Print the JSON schema of a kind of file, for editors."),
}
# The same for words that have words of their own: `slicebench tpu create`.
GROUPS = {
    "image": (
        "Container images for workers.",
        {
            "build": (
                "flows.cli.image:build",
                "Make an image, with an engine or without one, and print its digest.",
            ),
        },
    ),
    "history": (
        "The numbers of all runs, night by night. `slicebench history SERIES` shows one series.",
        {
            "show": ("flows.cli.history:show", "Show the nights of a series."),
            "list": ("flows.cli.history:list_", "List the series that there are."),
            "import": ("flows.cli.history:import_", "Take in runs that lie in a folder."),
            "exclude": ("flows.cli.history_notes:exclude", "Let a bad night count for nothing."),
            "include": ("flows.cli.history_notes:include", "Let an excluded night count again."),
            "annotate": ("flows.cli.history_notes:annotate", "Put a sentence beside a night."),
            "accept": ("flows.cli.history_notes:accept", "Take a series' values for what is expected."),
            "site": ("flows.cli.history_site:site", "Write all series as pages that need no server."),
            "compact": ("flows.cli.history_upkeep:compact", "Make few large files of many small ones."),
            "retain": ("flows.cli.history_upkeep:retain", "Let go of what is old."),
        },
    ),
    "tpu": (
        "TPU VMs to keep at hand: one face over nodes and queued resources.",
        {
            "create": ("flows.cli.tpu:create", "Make a TPU VM or queued resource, for a limited time."),
            "status": ("flows.cli.tpu:status", "Say what stands behind a name."),
            "list": ("flows.cli.tpu:list_", "List every TPU of the project."),
            "exec": ("flows.cli.tpu_workers:exec_", "Run a command on all or some of its workers."),
            "ssh": ("flows.cli.tpu_workers:ssh", "Open a shell on one of its workers."),
            "update": (
                "flows.cli.tpu_update:update",
                "Bring new code to its workers: branch, PR, fork or JAX.",
            ),
            "discover": ("flows.cli.tpu_update:discover", "Say who its workers are, and who lets us in."),
            "delete": ("flows.cli.tpu:delete", "Give back what `tpu create` made."),
        },
    ),
    "workload": (
        "Workloads of a Kubernetes cluster, whoever made them.",
        {
            "create": (
                "flows.cli.workload:create",
                "Run any command on the slices of a cluster, as one JobSet.",
            ),
            "list": (
                "flows.cli.workload:list_",
                "List workloads: what they need, what runs, which state and why.",
            ),
            "explain": ("flows.cli.workload:explain", "Say what keeps a workload, and what to do next."),
            "logs": ("flows.cli.workload:logs", "Show what its pods wrote."),
            "inspect": (
                "flows.cli.workload:inspect",
                "Write all about it into one archive, without secrets.",
            ),
            "delete": ("flows.cli.workload:delete", "Delete workloads, and wait until their pods are gone."),
        },
    ),
    "cluster": (
        "Clusters of GKE to keep, by API alone.",
        {
            "create": ("flows.cli.cluster_create:create", "Make a cluster, or finish, repair and resize it."),
            "resize": ("flows.cli.cluster:resize", "Give it another number of slices or machines."),
            "list": ("flows.cli.cluster:list_", "List every cluster of the project."),
            "describe": ("flows.cli.cluster:describe", "Say how it and its slices stand."),
            "cache-image": ("flows.cli.cluster_cache:cache_image", "Pull an image onto its nodes."),
            "kubeconfig": ("flows.cli.cluster:kubeconfig", "Print a kubeconfig for it alone."),
            "delete": ("flows.cli.cluster:delete", "Give back what `cluster create` made."),
        },
    ),
    "env": (
        "A shared, queued cluster with all that is around it in a project, from one file.",
        {
            "plan": ("flows.cli.env:plan", "Say what exists, is missing, differs, and what it costs."),
            "up": ("flows.cli.env:up", "Make it, or make it as its file says."),
            "down": ("flows.cli.env:down", "Give all of it back, and look that it is gone."),
            "deployer": ("flows.cli.env_deployer:deployer", "Make an account that may do just this."),
            "export": ("flows.cli.env:export", "Write it as a configuration of Terraform."),
        },
    ),
}


def __getattr__(name: str) -> Any:
    """Makes `app`, the commands as cyclopts knows them, when it is asked for: not all need the time that takes."""
    if name != "app":
        raise AttributeError(name)
    return _app()


@cache
def _app() -> cyclopts.App:
    import cyclopts

    made = cyclopts.App(
        name="slicebench",
        help="Measures how fast JAX programs save and restore checkpoints: build, provision, run, collect, tear down.",
        version_flags=["--version"],
        suppress_keyboard_interrupt=False,  # which it would end by itself, with nothing said
    )
    for word, (function, summary) in COMMANDS.items():
        made.command(function, name=word, help=summary)
    for word, (summary, commands) in GROUPS.items():
        group = cyclopts.App(name=word, help=summary)
        for name, (function, told) in commands.items():
            group.command(function, name=name, help=told)
        made.command(group)
    return made


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code. Errors are printed, one problem a line, never as tracebacks."""
    gc.set_threshold(_GARBAGE)
    words = sys.argv[1:] if argv is None else argv
    words = in_full(words)
    with outlets(), aiming(words), telling(_tell_wait):
        return _written(lambda: _command(words))


def _written(command: Callable[[], int]) -> int:
    """Returns the command's code once all that it said is written; another one when that cannot be."""
    code = int(ExitCode.DONE)
    try:
        code = command()
        sys.stdout.flush()
    except Unwritable as error:
        let_go_of_stdout()
        print(f"slicebench: {error}", file=sys.stderr)
        # Codes above those of ours are a program's own.
        return worst((ExitCode(code), error.exit_code)) if code in set(ExitCode) else code
    except BrokenPipeError:
        # The reader of our output left (`slicebench runs | head`); nothing more can be told it.
        let_go_of_stdout()
    return code


def _command(words: list[str]) -> int:
    try:
        _refuse_unknown_word(words)
        if words[:2] == ["workload", "create"]:
            from flows.cli.workload_create import create

            return create(words[2:])
        return _through_cyclopts(words)
    except Unwritable:
        raise
    except SlicebenchError as error:
        return _refuse(error, words)
    except KeyboardInterrupt:
        if "--json" in words:
            print(json.dumps({"error": "interrupted", "exit_code": int(ExitCode.INTERRUPTED)}))
        print("slicebench: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def in_full(words: list[str]) -> list[str]:
    """Returns the words with what goes without saying: `history SERIES` is `history show SERIES`, and values that look
    like flags are those of the flags before them.
    """
    verbs = GROUPS["history"][1]
    series = len(words) > 1 and words[0] == "history" and words[1] not in verbs and words[1][:1] != "-"
    return list(_with_values(["history", "show", *words[1:]] if series else words))


def _with_values(words: list[str]) -> Iterator[str]:
    """Yields the words with -5m at the flag before it: parsers take it for a flag, and would say that a value lacks."""
    own = words[: words.index("--")] if "--" in words else words
    kept: str | None = None
    for word in own:
        if (
            kept is not None
            and kept.startswith("--")
            and "=" not in kept
            and _NEGATIVE_LENGTH.fullmatch(word)
        ):
            kept = f"{kept}={word}"
            continue
        if kept is not None:
            yield kept
        kept = word
    yield from () if kept is None else (kept,)
    yield from words[len(own) :]


def _tell_wait(text: str) -> None:
    from flows.calls import without_secrets

    print(without_secrets(text), file=sys.stderr, flush=True)


def _through_cyclopts(words: list[str]) -> int:
    import cyclopts

    try:
        code = _app()(words, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code or 0)
    except cyclopts.CycloptsError as error:
        from flows.cli.wrong_flags import refusal_of

        return _refuse(refusal_of(error), words)


def _refuse_unknown_word(words: list[str]) -> None:
    """Raises BadInput for a command that is none. Cyclopts would import every command to say so."""
    known: dict[tuple[str, ...], tuple[str, ...]]
    known = {(): (*COMMANDS, *GROUPS)} | {(group,): tuple(GROUPS[group][1]) for group in GROUPS}
    for depth, word in enumerate(words[:2]):
        choices = known.get(tuple(words[:depth]), (word,))
        if word not in choices and not word.startswith("-"):
            import difflib

            near = difflib.get_close_matches(word, choices, n=2)
            fix = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(choices)}"
            raise BadInput(f"there is no command {' '.join(words[: depth + 1])!r}", fix=fix)


def _refuse(error: SlicebenchError, words: list[str]) -> int:
    """Tells the error: to people on stderr, and with --json as one object on stdout."""
    if "--json" in words:
        print(json.dumps({"error": aimed(str(error)), "exit_code": int(error.exit_code)}))
    for line in aimed(str(error)).splitlines():
        print(f"slicebench: {line}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
