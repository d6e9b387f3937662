"""`slicebench run`: one suite on one target. Through a Prefect server where one is up, else with one of its own."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from pydantic import Field

from flows.attempt import run_uri
from flows.cli.file_kind import refuse_other_kind
from flows.cli.said import print_json
from flows.cli.verbose import show_calls
from flows.cli.wrong_flags import refuse_empty
from flows.server import known_server
from flows.terminal import Terminal
from runtime.contract.errors import BadInput, ExitCode, Interrupted
from tasks.cloud.storage import Folder, is_there, open_folder
from tasks.config import commands
from tasks.config.request import RunRequest, Stage
from tasks.config.spec import RunSpec
from tasks.leases.left import left_in
from tasks.stages.asked import asked_for
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE


class Flags(RunRequest):
    """RunRequest as flags; what the command spells otherwise is taken out or renamed here."""

    suite: Annotated[str, Parameter(parse=False)] = ""
    resume: Annotated[bool, Parameter(parse=False)] = False
    from_stage: Annotated[Stage | None, Parameter(name="--from")] = Field(
        None, description="With --resume: do this stage and those after it again"
    )


_LAST = Group("How it goes", sort_key=5)
_SAID = Group("What it says", sort_key=6)
_GROUPS = {
    Group("Where", sort_key=1): ("target", "workers", "devices_per_worker", "output", "local_directory"),
    Group("Where its numbers go", sort_key=2): ("history", "night", "track"),
    Group("What is measured", sort_key=3): (
        *("set", "repo", "branch", "pr", "commit", "jax_version", "jax_index", "env", "env_file"),
    ),
    Group("Hardware that the run makes or shares", sort_key=4): (
        "keep",
        "keep_for",
        "lease",
        "wait_for_lock",
    ),
    _LAST: (
        *("run_id", "from_stage", "operation_deadline_s", "run_deadline_s"),
        *("stop_after_checkpoints", "skip_preflight", "debug_dumps"),
    ),
    _SAID: ("verbose",),
}
"""How --help sorts the flags; those that only the command has are added at the end of the last two groups."""

for _group, _names in _GROUPS.items():
    for _name in _names:
        # Nothing, an empty list and a switch that is off are no defaults worth telling.
        _told = Flags.model_fields[_name].get_default(call_default_factory=True) not in (None, [], False)
        Flags.model_fields[_name].metadata.append(Parameter(group=_group, show_default=_told))

NO_FLAGS = Flags.model_validate({})

_Where = Literal["through the server", "here", "directly"]
_THROUGH_SERVER: _Where = "through the server"
_HERE: _Where = "here"
_DIRECTLY: _Where = "directly"


def run(
    suite: Annotated[str | None, Parameter(help="Suite to run: a path, or a name in configs/suites/")] = None,
    /,
    *,
    flags: Annotated[Flags, Parameter(name="*", negative="")] = NO_FLAGS,
    resume: Annotated[
        str | None, Parameter(help="Go on with this run: only what is missing is done", group=_LAST)
    ] = None,
    server: Annotated[
        bool,
        Parameter(help="Go through the Prefect server when one is up", negative="--no-server", group=_LAST),
    ] = True,
    direct: Annotated[
        bool,
        Parameter(
            help="Run without Prefect: starts some 10 s sooner, and does not show in its UI",
            negative="",
            show_default=False,
            group=_LAST,
        ),
    ] = False,
    json: Annotated[
        bool, Parameter(help="Print one JSON object on stdout", negative="", show_default=False, group=_SAID)
    ] = False,
) -> int:
    """Run one suite on one target: build, provision, upload, run, collect, tear down, compare, report."""
    show_calls(flags.verbose)
    terminal = Terminal(verbose=flags.verbose)
    where = _DIRECTLY if direct else _THROUGH_SERVER if server else _HERE
    request, spec = _checked(request_of(suite, flags, resume), terminal, where)
    assert request.run_id is not None
    folder = open_folder(run_uri(request.run_id, request.output))
    outcome = _lacks_nothing(request, folder, terminal)
    if outcome is not None:
        if json:
            print_json(outcome | {"folder": folder.uri})
        return ExitCode(outcome["exit_code"])
    terminal.tell(f"run {request.run_id} in {folder.uri}")
    before = folder.read(OUTCOME_FILE)
    try:
        with asked_for(folder, spec):
            message = _run_somewhere(request, folder, terminal, where)
    except (KeyboardInterrupt, Interrupted):
        message = f"{ExitCode.INTERRUPTED.name}: interrupted"
    outcome = _outcome(folder, before, request.run_id, message)
    code = ExitCode(outcome["exit_code"])
    in_table = _show(folder, outcome, terminal)
    if code is not ExitCode.DONE:
        terminal.causes(outcome["causes"], in_table)
    if code not in (ExitCode.DONE, ExitCode.BAD_INPUT):
        what = code.name.lower().replace("_", " ")
        terminal.tell(f"the run ended with exit code {int(code)} ({what}): {_what_next(folder)}")
    if json:
        print_json(outcome | {"folder": folder.uri})
    return code


def _lacks_nothing(request: RunRequest, folder: Folder, terminal: Terminal) -> dict[str, Any] | None:
    """Returns how a run ended that is to go on and has everything, having said so; nothing of it changes."""
    if not request.resume or request.from_stage is not None:
        return None
    from tasks.stages.complete import complete

    outcome = complete(folder)
    if outcome is None:
        return None
    ended = f"exit code {outcome['exit_code']}, verdict {outcome.get('verdict')}"
    terminal.tell(
        f"run {request.run_id} is finished ({ended}) and lacks nothing: nothing was done; "
        "--from STAGE does a stage and those after it again"
    )
    return dict(outcome)


def _what_next(folder: Folder) -> str:
    """Says how to go on; a run that ended before its folder was made has nothing to go on with."""
    if not is_there(folder, REQUEST_FILE):
        return "nothing was made"
    return f"go on with: {commands.resume(folder.uri)}"


def _show(folder: Folder, outcome: dict[str, Any], terminal: Terminal) -> list[str]:
    """Prints table, verdict and where the report is, of what was collected; returns the causes told with it."""
    if outcome["verdict"] is None:
        return []
    from tasks.history.reading import load_results, load_verdicts
    from tasks.history.table import print_table

    results, verdicts = load_results(folder), load_verdicts(folder)
    if results is not None and verdicts is not None:
        print_table(results, verdicts)
    if outcome["report"]:
        terminal.tell(f"report: {outcome['report']}")
    if results is None or verdicts is None:
        return []
    troubles = [trouble.what for trouble in results.troubles if trouble.kind != "not_run"]
    regressed = [verdicts.reason] if outcome["exit_code"] == ExitCode.REGRESSION else []
    return [*(point.cause for point in results.points if point.status != "passed"), *troubles, *regressed]


def request_of(suite: str | None, flags: Flags, resume: str | None) -> RunRequest:
    """Returns the request that arguments and flags make. Raises BadInput for those that exclude each other."""
    given = flags.model_dump(exclude={"suite", "resume"})
    refuse_empty({"SUITE": suite, "--resume": resume} | {f"--{_flag(name)}": given[name] for name in given})
    if resume is not None:
        if suite is not None or flags.run_id is not None:
            raise BadInput(
                "--resume goes on with what the run was asked for", fix="give neither SUITE nor --run-id"
            )
        if changed := flags.model_fields_set - {"output", "from_stage", "verbose"}:
            told = ", ".join(f"--{_flag(name)}" for name in sorted(changed))
            raise BadInput(
                f"--resume takes {told} from the run itself", fix=f"leave out {told}, or start a new run"
            )
        return RunRequest(**given | {"suite": resume, "run_id": resume, "resume": True})
    if suite is None:
        raise BadInput(
            "there is no suite to run",
            fix="name one: slicebench run SUITE (quickstart, say), or go on with a run: --resume RUN",
        )
    if flags.from_stage is not None:
        raise BadInput("--from is for a run that exists", fix="add --resume RUN, or leave it out")
    refuse_other_kind(suite)
    return RunRequest(**given | {"suite": suite})


def _flag(name: str) -> str:
    return {"from_stage": "from"}.get(name, name.replace("_", "-"))


def _checked(request: RunRequest, terminal: Terminal, where: _Where) -> tuple[RunRequest, RunSpec]:
    """Refuses, before anything slow is imported or made, what cannot run; returns the request settled and named.

    A worker of the server starts elsewhere, so a relative path would mean another file there.
    """
    from tasks.stages.named_image import refuse_missing_image
    from tasks.stages.prepare import admit, settled

    if not request.resume and (request.repo or request.branch or request.pr or request.commit):
        terminal.tell("looking at the source …")
    elif not request.resume and request.jax_version != "locked":
        terminal.tell(f"looking for JAX {request.jax_version} …")
    chosen = known_server() if where == _THROUGH_SERVER else None
    spec, folder = admit(request, here=chosen is None or chosen.is_here)
    if not request.resume and not request.skip_preflight:
        refuse_missing_image(spec.target)
    if request.resume:
        return request.model_copy(update={"output": folder.uri.removesuffix(f"/{request.run_id}")}), spec
    return settled(request, spec), spec


def _run_somewhere(request: RunRequest, folder: Folder, terminal: Terminal, where: _Where) -> str:
    """Runs through the server, or here when there is none or none is wanted; returns in a line how it ended."""
    show_calls(False)  # the run tells its own, wherever it is; here nothing is left to do but to listen
    if where == _DIRECTLY:
        from flows.direct import run_directly

        return run_directly(request, terminal)
    from flows.here import run_here
    from flows.through import run_through_server
    from flows.watching import NoServer

    if where == _THROUGH_SERVER:
        try:
            return run_through_server(request, folder, terminal)
        except NoServer as reason:
            if str(reason):
                terminal.tell(f"{reason}; going on without")
    terminal.tell("starting Prefect for this run, some 10 s …")
    return run_here(request, terminal)


def _outcome(folder: Folder, before: bytes | None, run_id: str, message: str) -> dict[str, Any]:
    """Returns how the run ended: as its folder says, or, where it never came to write that, as Prefect's state says."""
    written = folder.read(OUTCOME_FILE)
    if written is not None and written != before:
        outcome: dict[str, Any] = jsonlib.loads(written)
        return outcome
    name, _, cause = message.partition(": ")
    code = ExitCode.__members__.get(name, ExitCode.INFRASTRUCTURE)
    told = cause if name in ExitCode.__members__ else message or "the run ended without saying how"
    ended = {"run_id": run_id, "exit_code": int(code), "verdict": None, "causes": [told], "report": None}
    if code is ExitCode.DONE and (left := left_in(folder)) is not None:
        return {**ended, "causes": [], "left": asdict(left)}
    return ended
