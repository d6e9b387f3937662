"""What a run is refused for once its suite, target and plan are known: all before anything is started or made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, Place, Problem, refusal
from runtime.contract.sidecar import STORE_VARIABLES, half_led, way_around
from tasks.cloud.storage import Folder, is_there, open_folder, probe_writable
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.home import HOME_VARIABLE, home
from tasks.config.locate import locate
from tasks.config.request import KEEP_FOR, RunRequest
from tasks.config.spec import RunSpec
from tasks.config.target import LocalTargetConfig, TargetConfig
from tasks.stages.files import REQUEST_FILE
from tasks.targets import beside
from tasks.targets.open import open_target
from tasks.targets.types import Plan

Probe = Callable[[Folder], Problem | None]
"""Says what is wrong with writing to a folder: by doing so, or by looking alone."""


def refuse_flags_without_effect(request: RunRequest, spec: RunSpec, plan: Plan) -> None:
    """Raises BadInput for what was asked for and this target cannot do."""
    target = spec.target_name
    if request.workers is not None and plan.workers != request.workers:
        raise BadInput(
            f"--workers {request.workers}: the suite's meshes take "
            f"{counted(plan.workers * plan.devices_per_worker, 'device')}, which so many workers cannot share evenly",
            fix=f"use --workers {plan.workers}, or change mesh_config",
        )
    if spec.keep != "never" and not plan.keepable:
        raise BadInput(
            f"--keep {spec.keep}: on target {target} a run makes nothing that could be kept",
            fix="leave --keep out",
        )
    if spec.lease is not None and not plan.keepable:
        raise BadInput(
            f"--lease {spec.lease}: target {target} keeps no hardware that could be used again",
            fix="leave --lease out",
        )
    if spec.keep == "never" and request.keep_for != KEEP_FOR:
        raise BadInput(
            f"--keep-for {request.keep_for} does nothing, as nothing is kept",
            fix="add --keep always or --keep on_failure",
        )
    if spec.wait_for_lock_s and not plan.locks:
        raise BadInput(
            f"--wait-for-lock {request.wait_for_lock}: target {target} uses nothing that another run could be using",
            fix="leave --wait-for-lock out",
        )


def refuse_local_directory(local_directory: str | None, target: TargetConfig | None) -> None:
    """Raises BadInput for a local directory that is not the same for each worker, or that a target does not use."""
    if local_directory is None:
        return
    if not local_directory.startswith("/"):
        raise BadInput(
            f"--local-directory {local_directory} is no absolute path",
            fix="write one that is on every worker's host, such as /dev/shm/slicebench",
        )
    if target is not None and not isinstance(target, LocalTargetConfig):
        raise BadInput(
            f"--local-directory {local_directory}: only workers on this machine use one so far, "
            f"not those of kind {target.kind}",
            fix="leave --local-directory out; hosts have a directory in memory with ram_directory: in the target file",
        )


def refuse_unencrypted(spec: RunSpec, place: Place, environ: Mapping[str, str]) -> None:
    """Raises BadInput where a target's `encryption:` would not hold what the run writes. `place`: the target's file.

    `environ`: what workers on this machine have beside the run's own variables.
    """
    encryption = spec.target.encryption
    if encryption is None:
        return
    problems = []
    if why := beside.uncovered(encryption, spec.output):
        fix = "add its bucket to keys: in the target file, or choose another --output"
        problems.append(Problem("error", place, why, "its checkpoints would lie there as they are", fix))
    around = "nothing would be encrypted"
    if encryption.enabled and (why := way_around(spec.env)):
        problems.append(Problem("error", Place("--env"), why, around, "leave it out"))
    elif encryption.enabled and spec.target.kind == "local" and (why := way_around({**environ, **spec.env})):
        problems.append(Problem("error", None, f"{why}, in this environment", around, "unset it"))
    if problems:
        raise BadInput(problems)


def refuse_two_stores(spec: RunSpec, place: Place, environ: Mapping[str, str]) -> None:
    """Raises BadInput where some of the workers' clients would go to a stand-in of Cloud Storage, others to Google's.

    `place`: the target's file. `environ`: what workers on this machine have beside the run's own variables. Where a
    proxy of `encryption:` stands beside workers, all of these go to it, and it asks one store.
    """
    if spec.target.encryption is not None:
        return
    sources: list[tuple[Place | None, Mapping[str, str]]] = [(Place("--env"), spec.env)]
    if isinstance(spec.target, GkeTargetConfig):
        sources.append((place, spec.target.env))
    elif spec.target.kind == "local":
        sources.append((None, environ))
    environment = {name: value for _, part in reversed(sources) for name, value in part.items()}
    if not spec.output.startswith("gs://") or not (why := half_led(environment)):
        return
    where = next(place for place, part in sources if any(name in part for name in STORE_VARIABLES))
    around = "TensorStore heeds the one and other clients the other: some of each checkpoint would go to Cloud Storage"
    raise BadInput(Problem("error", where, why, around, "set both to the same address, or neither"))


def unencrypted_output(spec: RunSpec, place: Place) -> list[Problem]:
    """Returns the warning that what a run writes goes past its target's `encryption:`. `place`: the target's file."""
    encryption = spec.target.encryption
    if encryption is None or not encryption.enabled or spec.output.startswith("gs://"):
        return []
    what = f"encryption: stands before Cloud Storage, and {spec.output} is a folder"
    why = "what the run saves there is not encrypted"
    return [Problem("warning", place, what, why, "give --output gs://BUCKET/FOLDER")]


def refuse_bad_keys(spec: RunSpec, place: Place) -> None:
    """Raises BadInput for key files of a target that are not here, or that others may read."""
    encryption = spec.target.encryption
    if encryption is not None and (problems := beside.key_files(encryption)):
        raise BadInput([replace(problem, place=place) for problem in problems])


def refuse_unwritable(spec: RunSpec, probe: Probe, *, here: bool) -> Folder:
    """Returns the folder that the run will have for its own.

    Raises BadInput when something cannot be written, as `probe` finds, or when the folder is a run's already;
    InfrastructureError when the disk is full, which is nobody's input.
    `here`: this machine will keep the run's state, and is the target where that is local.
    """
    output = open_folder(spec.output)
    if problem := probe(output):
        raise refusal([problem])
    folder = output.child(spec.run_id)
    if is_there(folder, REQUEST_FILE):
        raise is_a_run_already(folder, spec)
    if not here:
        return folder
    refuse_unwritable_home(probe)
    if spec.local_directory is not None and (problem := probe(open_folder(spec.local_directory))):
        what = f"--local-directory {spec.local_directory} cannot be written: {problem.why}"
        fix = "name another, or give yourself the right to write there"
        raise refusal([replace(problem, what=what, why="", fix=fix)])
    return folder


def refuse_unwritable_home(probe: Probe = probe_writable) -> None:
    """Raises BadInput when slicebench cannot keep its state on this machine, InfrastructureError: the disk is full."""
    if problem := probe(open_folder(str(home()))):
        what = f"{home()}, where slicebench keeps its state, cannot be written: {problem.why}"
        raise refusal([replace(problem, what=what, why="", fix=f"set {HOME_VARIABLE} to a folder that can")])


def is_a_run_already(folder: Folder, spec: RunSpec) -> BadInput:
    """Returns the error that a run's name is taken."""
    fix = f"continue it with --resume {spec.run_id}, or choose another --run-id"
    return BadInput(f"{folder.uri} is a run already", fix=fix)


def refuse_unfit_machine(request: RunRequest, spec: RunSpec) -> None:
    """Raises BadInput when this machine, being the target, lacks GPUs, memory or disk; others come later."""
    if not isinstance(spec.target, LocalTargetConfig) or spec.skip_preflight:
        return
    target = open_target(spec.target)
    problems = target.preflight(target.plan(spec))
    place = Place(str(locate(request.target, "targets")))
    if errors := [replace(problem, place=place) for problem in problems if problem.severity == "error"]:
        raise BadInput(errors)
