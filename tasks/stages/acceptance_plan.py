"""Looks an acceptance over before anything begins: its target with each variant beside it, its suite, its output."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.yamlfile import load, place_of, read_text
from tasks.cloud.local_storage import replacing
from tasks.config.acceptance import Program, Variant
from tasks.config.acceptance_turns import Session, Turn
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import root_of
from tasks.config.locate import locate
from tasks.config.nightly_cells import located
from tasks.config.spec import RunSpec
from tasks.config.target import TargetConfig
from tasks.stages.nightly_places import Places, places_of
from tasks.stages.prepare import resolve
from tasks.targets.beside import key_files, uncovered
from tasks.targets.open import open_target
from tasks.targets.target_file import checked_target

NAME = "accept-0123456789"
"""As long as what workloads of an acceptance are called."""

_BESIDE = ("encryption", "sidecar")


@dataclass(frozen=True)
class Planned:
    """What all runs of a session take. `wait_for_lock`: how long they wait for hardware that others may be using."""

    places: Places
    wait_for_lock: str


def plan_session(session: Session, file: str) -> Planned:
    """Returns what a session takes, having asked nobody. Raises BadInput, with all problems, having made nothing."""
    if isinstance(session.config.training, Program):
        return _plan_program(session, file, session.config.training)
    problems: list[Problem] = []
    found: list[RunSpec] = []
    with _drafts(session) as drafted:
        for turn in _one_of_each(session):
            place = _place(file, session, turn.variant)
            problems += _unencrypted(session, turn.variant, place)
            request = turn.run.request.model_copy(update={"target": drafted[turn.variant.name]})
            try:
                found.append(resolve(request, os.environ))
            except BadInput as refusal:
                problems += [
                    _placed(one, turn, place, drafted[turn.variant.name]) for one in refusal.problems
                ]
    if problems:
        raise BadInput(list(dict.fromkeys(problems)))
    spec = found[0]
    locks = open_target(spec.target).plan(spec).locks
    wait = session.config.wait_for_lock if locks else "0s"
    return Planned(places_of(session.config.target, spec.target), wait)


def _plan_program(session: Session, file: str, program: Program) -> Planned:
    """Returns the same for a program of somebody's own: a workload on each variant's target, checked offline."""
    from tasks.stages.workload_create import Wanted, check_offline, submission_of

    problems: list[Problem] = []
    config: TargetConfig | None = None
    with _drafts(session) as drafted:
        for turn in _one_of_each(session):
            place, draft = _place(file, session, turn.variant), drafted[turn.variant.name]
            if turn.variant.is_encrypting and not program.checkpoints.startswith("gs://"):
                what = f"variant {turn.variant.name}: {program.checkpoints} is a folder, before which no proxy stands"
                problems.append(Problem("error", place, what, fix="write checkpoints: gs://BUCKET/{run}"))
            elif turn.variant.encryption and (why := uncovered(turn.variant.encryption, program.checkpoints)):
                problems.append(
                    Problem("error", place, f"variant {turn.variant.name}: {why}", fix="add its bucket")
                )
            try:
                config = checked_target(Path(draft))
                if not isinstance(config, GkeTargetConfig):
                    raise BadInput(
                        f"target {session.config.target} is of kind {config.kind}, and a program runs in pods",
                        fix="name one of kind gke, or a suite as training:",
                    )
                wanted = Wanted(NAME, program.image, program.command, program.env)
                check_offline(config, submission_of(wanted, config))
            except BadInput as refusal:
                problems += [_placed(one, turn, place, draft) for one in refusal.problems]
    if problems or config is None:
        raise BadInput(list(dict.fromkeys(problems)))
    return Planned(places_of(session.config.target, config), "0s")


def refuse_bad_keys(session: Session, file: str) -> None:
    """Raises BadInput for key files that are not on this machine, or that others may read: its runs want them late."""
    problems = [
        replace(one, place=_place(file, session, variant), what=f"variant {variant.name}: {one.what}")
        for variant in session.config.variants
        if variant.encryption
        for one in key_files(variant.encryption)
    ]
    if problems:
        raise BadInput(problems)


def refuse_old_cluster(session: Session, file: str) -> None:
    """Raises BadInput for a cluster that knows no sidecars: variants with one come after others, which take hours.

    One that does not answer, or is not there yet, is judged by each run.
    """
    from tasks.stages.workload_create import Wanted, submission_of
    from tasks.targets.gke_access import version_of
    from tasks.targets.kube_jobset import jobset
    from tasks.targets.kube_version import too_old

    problems: list[Problem] = []
    where = version = ""
    asked = False
    with _drafts(session) as drafted:
        for variant in session.config.variants:
            config = checked_target(Path(drafted[variant.name]))
            if not variant.beside or not isinstance(config, GkeTargetConfig):
                continue
            whole = jobset(config, submission_of(Wanted(NAME, "image"), config))
            if not asked:
                where, version = version_of(config)
                asked = True
            if (old := too_old(version, whole, where)) is not None:
                what = f"variant {variant.name}: {old.what}"
                problems.append(replace(old, place=_place(file, session, variant), what=what))
    if problems:
        raise BadInput(problems)


def write_targets(session: Session) -> None:
    """Writes a target file for each variant, unless it is there already: runs that go on read it again."""
    base = _base_of(session)
    for variant in session.config.variants:
        path = Path(session.target_file(variant))
        if not path.exists():
            with replacing(path, 0o600) as file:
                file.write(_text(base, variant))


def _base_of(session: Session) -> Mapping[str, Any]:
    path = locate(located(session.config.target, session.base), "targets")
    content = root_of(path).value
    if not isinstance(content, Mapping):
        raise BadInput(Problem("error", Place(str(path)), "a target is a mapping", fix="write kind: local"))
    return {name: value for name, value in content.items() if name not in _BESIDE}


def _text(base: Mapping[str, Any], variant: Variant) -> bytes:
    """Returns the target file of a variant. JSON is YAML."""
    return json.dumps({**base, **variant.beside}, indent=1).encode()


@contextmanager
def _drafts(session: Session) -> Iterator[Mapping[str, str]]:
    """Yields the target files of all variants, in a folder that goes with the block: this only looks."""
    base = _base_of(session)
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        paths = {one.name: f"{folder}/{one.name}.yaml" for one in session.config.variants}
        for one in session.config.variants:
            Path(paths[one.name]).write_bytes(_text(base, one))
        yield paths


def _one_of_each(session: Session) -> list[Turn]:
    turns = {turn.variant.name: turn for turn in session.turns() if turn.repeat is not None}
    return [turns[one.name] for one in session.config.variants]


def _unencrypted(session: Session, variant: Variant, place: Place | None) -> list[Problem]:
    if not variant.is_encrypting or session.output.startswith("gs://"):
        return []
    what = (
        f"variant {variant.name}: {session.output} is a folder, and proxies stand before Cloud Storage only"
    )
    return [Problem("error", place, what, fix="write output: gs://BUCKET/FOLDER")]


def _placed(problem: Problem, turn: Turn, place: Place | None, draft: str) -> Problem:
    """Returns a problem with the place in the acceptance, where it was told of a draft or of no file."""
    inside = problem.place is None or problem.place.file == draft
    fix = problem.fix.replace("the target file", "the variant").replace(
        "choose another --output", "change output:"
    )
    what = problem.what.replace("--stop-after-checkpoints", "checkpoints:")
    if not inside:
        return problem
    return replace(problem, place=place, what=f"variant {turn.variant.name}: {what}", fix=fix)


def _place(file: str, session: Session, variant: Variant) -> Place | None:
    root = load(read_text(file), file).root
    number = session.config.variants.index(variant)
    return None if root is None else place_of(root, ("variants", number))
