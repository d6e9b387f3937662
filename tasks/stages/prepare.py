"""From what somebody asked for to a run that can start: everything is checked here, before anything is made."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from runtime.contract.errors import BadInput, InfrastructureError, Place, Problem
from runtime.contract.expand import expand
from runtime.contract.job import Deadlines
from runtime.contract.names import STAGES, SUITE_FILE
from runtime.contract.overrides import apply_overrides
from runtime.contract.suite import Suite
from runtime.contract.suite_reader import read_suite
from runtime.contract.yamlfile import read_text
from tasks.cloud.storage import Folder, open_folder, probe_writable
from tasks.config import duration
from tasks.config.envfile import resolve_env
from tasks.config.findings import checked
from tasks.config.home import HISTORY_VARIABLE, runs_folder
from tasks.config.locate import locate
from tasks.config.request import RunRequest
from tasks.config.run_names import checked_lease_name, checked_run_id, run_id_for
from tasks.config.source import resolve_source
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.target import TargetConfig
from tasks.leases.outcome import begin_pass
from tasks.stages.asked import begin_asked, never_began, read_asked
from tasks.stages.attempts import go_on, start_over
from tasks.stages.build import check_source
from tasks.stages.context import Run, Say
from tasks.stages.files import REQUEST_FILE
from tasks.stages.refusals import (
    is_a_run_already,
    refuse_bad_keys,
    refuse_flags_without_effect,
    refuse_local_directory,
    refuse_two_stores,
    refuse_unencrypted,
    refuse_unfit_machine,
    refuse_unwritable,
    unencrypted_output,
)
from tasks.stages.stopping import refuse_unstoppable
from tasks.targets.open import open_target
from tasks.targets.target_file import checked_target

_Resolved = TypeVar("_Resolved")


def prepare(request: RunRequest, say: Say) -> Run:
    """Checks a request and opens its run's folder. Raises BadInput, with all problems, having made nothing.

    With `resume`, the request and the suite that the run's folder holds are taken: the files may have changed since.
    What it holds is left alone until `begin`.
    """
    spec, folder = admit(request)
    run = Run(spec=spec, folder=folder, target=open_target(spec.target, say), say=say)
    if not request.resume:
        asked = read_asked(folder)
        if not folder.create(REQUEST_FILE, _stored(request, spec, asked.at if asked else time.time())):
            raise is_a_run_already(folder, spec)
        folder.write(SUITE_FILE, spec.suite_text.encode())
        for warning in (*spec.warnings, *spec.left_out):
            say(str(warning))
    return run


def begin(run: Run, request: RunRequest) -> None:
    """Begins a pass, once the lease says that the run is in no other process's hands.

    One that goes on takes back what is to be done again: what the request names, else what has not passed.
    """
    begin_pass(run.folder, begin_asked(run.folder))
    if request.resume and request.from_stage is None:
        go_on(run)
    elif request.from_stage is not None:
        run.forget_from(request.from_stage)
        if STAGES.index(request.from_stage) <= STAGES.index("run"):
            start_over(run)


def admit(request: RunRequest, *, here: bool = True) -> tuple[RunSpec, Folder]:
    """Checks all that can be known of a run before it begins; returns it, and the folder that will be its own.

    `here`: the run is to happen on this machine, so that a local target is this one.

    Raises BadInput, with all problems, having made nothing. Imports nothing slow; asks the network only for a
    source or a JAX version that is not the locked one, once in a process.
    """
    if request.resume:
        return _reopen(request)
    spec = resolve(request, os.environ)
    folder = refuse_unwritable(spec, probe_writable, here=here)
    if here:
        refuse_unfit_machine(request, spec)
        refuse_bad_keys(spec, Place(str(locate(request.target, "targets"))))
    check_source(spec)
    return spec, folder


def resolve(request: RunRequest, environ: Mapping[str, str], suite_text: str | None = None) -> RunSpec:
    """Returns the RunSpec of a request: files read, overrides applied, names made. Makes nothing.

    Raises BadInput with the problems of all inputs together, the suite's fit on the target included. `suite_text`,
    given on resume, is taken in place of the suite file's content and of the overrides.
    """
    spec = unplanned(request, environ, suite_text)
    plan = open_target(spec.target).plan(spec)
    refuse_flags_without_effect(request, spec, plan)
    place = Place(str(locate(request.target, "targets")))
    refuse_unencrypted(spec, place, environ)
    refuse_two_stores(spec, place, environ)
    if spec.lease is not None:
        checked_lease_name(spec.lease)
    warnings = (*spec.warnings, *unencrypted_output(spec, place))
    spec = replace(spec, points=plan.points, left_out=plan.left_out, warnings=warnings)
    refuse_unstoppable(spec)
    return spec


def unplanned(request: RunRequest, environ: Mapping[str, str], suite_text: str | None = None) -> RunSpec:
    """Returns the same before anybody asks whether the suite fits on the target."""
    found = _read(request, environ, suite_text)
    suite, target_path, env = found.suite, found.target_path, found.env
    if suite.simdevice is not None:
        raise BadInput(
            f"{found.path} asks for simulated TPUs (simdevice), and workers run on real devices only",
            fix="remove the simdevice block, or run the suite with Orbax's own runner",
        )
    return RunSpec(
        run_id=found.run_id,
        suite_name=suite.name,
        suite_path=str(found.path),
        suite_text=found.text,
        points=expand(suite),
        num_repeats=suite.num_repeats,
        target_name=target_path.stem,
        target=found.target.with_choices(request.workers, request.devices_per_worker),
        source=found.source,
        output=found.output,
        history=found.history,
        partial=bool(suite.only),
        keep=request.keep,
        keep_for_s=duration.seconds(request.keep_for),
        lease=request.lease,
        wait_for_lock_s=duration.seconds(request.wait_for_lock),
        deadlines=_deadlines(request),
        stop_after_checkpoints=request.stop_after_checkpoints,
        env=env[0],
        secret_env=frozenset(env[1]),
        local_directory=request.local_directory,
        skip_preflight=request.skip_preflight,
        debug_dumps=request.debug_dumps,
        warnings=suite.warnings,
    )


class _Inputs(NamedTuple):
    """What a request names, each as it was read and found right by itself."""

    path: Path
    text: str
    suite: Suite
    target_path: Path
    target: TargetConfig
    source: SourceSpec
    env: tuple[Mapping[str, str], frozenset[str]]
    run_id: str
    output: str
    history: str


def _read(request: RunRequest, environ: Mapping[str, str], suite_text: str | None) -> _Inputs:
    """Returns what a request names. Raises BadInput with the problems of all of it together."""
    problems: list[Problem] = []

    def gather(step: Callable[[], _Resolved]) -> _Resolved | None:
        try:
            return step()
        except BadInput as refusal:
            problems.extend(refusal.problems)
            return None

    path = Path(request.suite) if suite_text is not None else gather(lambda: locate(request.suite, "suites"))
    text = suite_text
    if path is not None and text is None:
        text = gather(lambda: apply_overrides(read_text(path), request.set, str(path)))
    suite = gather(lambda: read_suite(text, str(path))) if text is not None else None
    target_path = gather(lambda: locate(request.target, "targets"))
    target = gather(lambda: checked_target(target_path)) if target_path else None
    source = gather(lambda: resolve_source(request))
    env = gather(lambda: _environment(request, environ))
    run_id = gather(lambda: checked_run_id(request.run_id or _new_run_id(request.suite)))
    output = gather(lambda: open_folder(request.output or str(runs_folder())).uri)
    history = gather(lambda: _history(request, environ))
    gather(lambda: refuse_local_directory(request.local_directory, target))
    if problems or not (
        path
        and text
        and suite
        and target_path
        and target
        and source
        and env
        and run_id
        and output
        and history is not None
    ):
        raise BadInput(problems)
    return _Inputs(path, text, suite, target_path, target, source, env, run_id, output, history)


def _reopen(request: RunRequest) -> tuple[RunSpec, Folder]:
    """Finds a run that exists, as it was asked for at first."""
    if request.run_id is None:
        raise BadInput("resume needs the id of a run", fix="name it: --resume RUN")
    checked_run_id(request.run_id)
    folder = open_folder(request.output or str(runs_folder())).child(request.run_id)
    stored, text = folder.read(REQUEST_FILE), folder.read(SUITE_FILE)
    if stored is None or text is None:
        raise BadInput(
            f"there is no run {request.run_id} in {request.output or runs_folder()}{never_began(folder)}",
            fix="see slicebench runs",
        )
    first = _read_stored(stored, folder)
    spec = resolve(first.model_copy(update={"run_id": request.run_id}), os.environ, text.decode())
    return spec, folder


def _read_stored(content: bytes, folder: Folder) -> RunRequest:
    try:
        return checked(RunRequest, json.loads(content)["request"])
    except (ValueError, KeyError, TypeError, BadInput) as error:
        raise InfrastructureError(f"{folder.uri}/{REQUEST_FILE} is damaged: {error}") from error


def settled(request: RunRequest, spec: RunSpec) -> RunRequest:
    """Returns the request with its run id, and with paths that mean the same wherever it is read."""
    return request.model_copy(
        update={
            "run_id": spec.run_id,
            "suite": spec.suite_path,
            "target": str(locate(request.target, "targets")),
            "output": spec.output,
            "history": spec.history or None,
            "repo": spec.source.repo,
            "jax_index": spec.source.jax_index,
            "env_file": [str(Path(file).expanduser().absolute()) for file in request.env_file],
        }
    )


def _stored(request: RunRequest, spec: RunSpec, created_at: float) -> bytes:
    """Returns request.json: all that resuming needs. Env files are read again, so no secret is kept."""
    about = {
        # The overrides are in suite.yaml.
        "request": settled(request, spec).model_copy(update={"set": []}).model_dump(),
        "suite_name": spec.suite_name,
        "target": spec.target_name,
        "created_at": created_at,
        "partial": spec.partial,
    }
    return json.dumps(about, indent=1, sort_keys=True).encode()


def _environment(request: RunRequest, environ: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the workers' environment and the secret names in it; refuses a secret that would be written down."""
    values, secret = resolve_env(request.env, request.env_file, environ)
    written = [line.partition("=")[0] for line in request.env if "=" in line]
    if told := [name for name in written if name in secret]:
        raise BadInput(
            [
                Problem(
                    "error",
                    None,
                    f"--env {name}=… would keep a secret in the run's parameters",
                    fix=f"give --env {name}, which takes the value from the environment, or an --env-file",
                )
                for name in told
            ]
        )
    return values, secret


def _deadlines(request: RunRequest) -> Deadlines:
    operation_s = request.operation_deadline_s or Deadlines().operation_s
    return Deadlines(operation_s=operation_s, run_s=request.run_deadline_s)


def _history(request: RunRequest, environ: Mapping[str, str]) -> str:
    """Returns where the run's numbers are added; empty for nowhere."""
    given = request.history or environ.get(HISTORY_VARIABLE)
    return open_folder(given).uri if given else ""


def _new_run_id(suite: str) -> str:
    return run_id_for(suite, datetime.now(UTC), secrets.token_hex(2))
