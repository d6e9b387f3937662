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
    "check": (
        "flows.cli.check:check",
        "Check suites, targets and other files for mistakes. Creates nothing.",
    ),
    "plan": ("flows.cli.plan:plan", "Show what a run would create, use and cost. Creates nothing."),
    "nightly": ("flows.cli.nightly:nightly", "Run a night of suites, targets and versions, and judge it."),
    "acceptance": (
        "flows.cli.acceptance:acceptance",
        "Check that training survives a restart with a sidecar beside it, and measure what the sidecar costs.",
    ),
    "runs": ("flows.cli.runs:runs", "List past runs."),
    "report": ("flows.cli.report:report", "Show a run's results and where its report lies."),
    "compare": ("flows.cli.compare:compare", "Compare two runs, repeat against repeat."),
    "logs": ("flows.cli.logs:logs", "Show what the workers of a run wrote."),
    "explain": ("flows.cli.explain:explain", "Say what state a run is in, why, and what to do next."),
    "doctor": (
        "flows.cli.doctor:doctor",
        "Find what would stop a run here or on a target, and how to fix it.",
    ),
    "bisect": ("flows.cli.bisect:bisect", "Find the commit or version that made a series slower."),
    "leases": ("flows.cli.leases:leases", "List the hardware that is held, and who holds it."),
    "reap": ("flows.cli.leases:reap", "Delete hardware that outlived its lease."),
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
                "Build an image, with or without a container engine, and print its digest.",
            ),
        },
    ),
    "history": (
        "The numbers of all runs, night by night. `slicebench history SERIES` shows one series.",
        {
            "show": ("flows.cli.history:show", "Show the nights of a series."),
            "list": ("flows.cli.history:list_", "List the series that there are."),
            "import": ("flows.cli.history:import_", "Import runs from a folder."),
            "exclude": ("flows.cli.history_notes:exclude", "Exclude a bad night from all comparisons."),
            "include": ("flows.cli.history_notes:include", "Include an excluded night again."),
            "annotate": ("flows.cli.history_notes:annotate", "Attach a note to a night."),
            "accept": (
                "flows.cli.history_notes:accept",
                "Accept a series' current level as the expected one.",
            ),
            "site": ("flows.cli.history_site:site", "Write pages for all series; they need no server."),
            "compact": ("flows.cli.history_upkeep:compact", "Merge each month's small files into one."),
            "retain": ("flows.cli.history_upkeep:retain", "Delete what is older than a given age."),
        },
    ),
    "tpu": (
        "TPU VMs that stay after a run, whether nodes or queued resources.",
        {
            "create": ("flows.cli.tpu:create", "Create a TPU VM or queued resource, for a limited time."),
            "status": ("flows.cli.tpu:status", "Show what a name stands for, and its state."),
            "list": ("flows.cli.tpu:list_", "List every TPU of the project."),
            "exec": ("flows.cli.tpu_workers:exec_", "Run a command on all or some of its workers."),
            "ssh": ("flows.cli.tpu_workers:ssh", "Open a shell on one of its workers."),
            "update": (
                "flows.cli.tpu_update:update",
                "Bring new code to its workers: branch, PR, fork or JAX.",
            ),
            "discover": (
                "flows.cli.tpu_update:discover",
                "List its workers, and whether each can be logged in to.",
            ),
            "delete": ("flows.cli.tpu:delete", "Delete what `tpu create` made."),
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
                "List workloads: what they need, what runs, their state and why.",
            ),
            "explain": (
                "flows.cli.workload:explain",
                "Say why a workload is not running or why it failed, and what to do next.",
            ),
            "logs": ("flows.cli.workload:logs", "Show what its pods wrote."),
            "inspect": (
                "flows.cli.workload:inspect",
                "Write all that is known of a workload into one archive, without secrets.",
            ),
            "delete": ("flows.cli.workload:delete", "Delete workloads, and wait until their pods are gone."),
        },
    ),
    "cluster": (
        "Create, resize and delete GKE clusters that stay after a run.",
        {
            "create": (
                "flows.cli.cluster_create:create",
                "Create a cluster, or finish, repair and resize it.",
            ),
            "resize": ("flows.cli.cluster:resize", "Change the number of slices or machines."),
            "list": ("flows.cli.cluster:list_", "List every cluster of the project."),
            "describe": ("flows.cli.cluster:describe", "Show the state of a cluster and its slices."),
            "cache-image": ("flows.cli.cluster_cache:cache_image", "Pull an image onto its nodes."),
            "kubeconfig": ("flows.cli.cluster:kubeconfig", "Print a kubeconfig for this cluster alone."),
            "delete": ("flows.cli.cluster:delete", "Delete what `cluster create` made."),
        },
    ),
    "env": (
        "A shared GKE cluster with its queues, network, accounts and bucket, all from one file.",
        {
            "plan": (
                "flows.cli.env:plan",
                "Show what exists, what is missing, what differs, and what it costs.",
            ),
            "up": ("flows.cli.env:up", "Create the environment, or change it to match its file."),
            "down": ("flows.cli.env:down", "Delete the whole environment, and verify that it is gone."),
            "deployer": (
                "flows.cli.env_deployer:deployer",
                "Create a service account with just the rights that up and down need.",
            ),
            "export": ("flows.cli.env:export", "Write it as a Terraform configuration."),
        },
    ),
}


def __getattr__(name: str) -> Any:
    """Makes `app`, the commands as cyclopts knows them, when it is asked for: not all need the time that takes."""
    if name != "app":
        raise AttributeError(name)
    return _app()


@cache
def _app(told_whole: tuple[str, ...] = ()) -> cyclopts.App:
    """`told_whole`: the command whose help is its function's docstring, which says more than its summary."""
    import cyclopts

    made = cyclopts.App(
        name="slicebench",
        help="Measures how fast JAX programs save and restore checkpoints: build, provision, run, collect, tear down.",
        version_flags=["--version"],
        suppress_keyboard_interrupt=False,  # which it would end by itself, with nothing said
    )
    for word, (function, summary) in COMMANDS.items():
        made.command(function, name=word, help=None if told_whole[:1] == (word,) else summary)
    for word, (summary, commands) in GROUPS.items():
        group = cyclopts.App(name=word, help=summary)
        for name, (function, told) in commands.items():
            group.command(function, name=name, help=None if told_whole == (word, name) else told)
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
        code = _app(_explained(words))(
            words, exit_on_error=False, print_error=False, result_action="return_value"
        )
        return int(code or 0)
    except cyclopts.CycloptsError as error:
        from flows.cli.wrong_flags import refusal_of

        return _refuse(refusal_of(error), words)


def _explained(words: list[str]) -> tuple[str, ...]:
    """Returns the command that --help is asked of; empty: of none, or of a group. Only it is worth being imported."""
    own = words[: words.index("--")] if "--" in words else words
    if not {"--help", "-h"} & set(own) or own[0].startswith("-"):
        return ()
    named = tuple(own[:2] if own[0] in GROUPS else own[:1])
    return () if named[-1].startswith("-") else named


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
