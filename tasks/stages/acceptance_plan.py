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
from runtime.contract.yamlfile import place_of
from tasks.cloud.local_storage import replacing
from tasks.config.acceptance import Program, Variant
from tasks.config.acceptance_turns import Session, Turn
from tasks.config.beside_file import located
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import root_of
from tasks.config.locate import locate
from tasks.stages.acceptance_wrong import of_all, of_variants
from tasks.stages.flags_in_files import as_keys
from tasks.stages.nightly_places import Places, places_of
from tasks.stages.prepare import resolve
from tasks.stages.stopping import refuse_unstoppable
from tasks.targets.beside import key_files, uncovered, unmapped
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


def plan_session(session: Session) -> Planned:
    """Returns what a session takes, having asked nobody. Raises BadInput, with all problems, having made nothing."""
    root = root_of(Path(session.file))
    if problems := of_all(session, root):
        raise BadInput(problems)
    look = _fits if isinstance(session.config.training, str) else _submits
    planned: Planned | None = None
    found: list[tuple[Variant, list[Problem]]] = []
    with _drafts(session) as drafts:
        for turn in _one_of_each(session):
            problems = list(_unencrypted(session, turn.variant))
            try:
                one = look(session, turn, f"{drafts}/{turn.variant.name}.yaml")
                planned = planned or one
            except BadInput as refusal:
                problems += refusal.problems
            found.append((turn.variant, problems))
        if wrong := of_variants(session, root, found, drafts):
            raise BadInput(wrong)
    assert planned is not None
    return planned


def _fits(session: Session, turn: Turn, draft: str) -> Planned:
    """Returns what runs of a suite take on a variant's target."""
    asked = turn.run.request
    spec = resolve(asked.model_copy(update={"target": draft, "stop_after_checkpoints": None}), os.environ)
    try:
        refuse_unstoppable(replace(spec, stop_after_checkpoints=asked.stop_after_checkpoints))
    except BadInput as refusal:
        place = place_of(root_of(Path(session.file)), ("checkpoints",))
        raise BadInput([replace(as_keys(one), place=place) for one in refusal.problems]) from refusal
    locks = open_target(spec.target).plan(spec).locks
    wait = session.config.wait_for_lock if locks else "0s"
    return Planned(places_of(session.config.target, spec.target), wait)


def _submits(session: Session, turn: Turn, draft: str) -> Planned:
    """Returns the same for a program of somebody's own: a workload on a variant's target, checked offline."""
    from tasks.stages.workload_create import Wanted, check_offline, submission_of

    program = session.config.training
    assert isinstance(program, Program)
    config = checked_target(Path(draft))
    if not isinstance(config, GkeTargetConfig):
        raise BadInput(
            f"target {session.config.target} is of kind {config.kind}, and a program runs in pods",
            fix="name one of kind gke, or a suite as training:",
        )
    check_offline(config, submission_of(Wanted(NAME, program.image, program.command, program.env), config))
    return Planned(places_of(session.config.target, config), "0s")


def bad_keys(session: Session) -> list[Problem]:
    """Returns what is wrong with key files: they are not on this machine, or others may read them."""
    return [
        replace(one, place=_place(session, variant), what=f"variant {variant.name}: {one.what}")
        for variant in session.config.variants
        if variant.encryption
        for one in key_files(variant.encryption)
    ]


def refuse_bad_keys(session: Session) -> None:
    """Raises BadInput for key files that a run would want late."""
    if problems := bad_keys(session):
        raise BadInput(problems)


def refuse_old_cluster(session: Session) -> None:
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
    with _drafts(session) as drafts:
        for variant in session.config.variants:
            config = checked_target(Path(f"{drafts}/{variant.name}.yaml"))
            if not variant.beside or not isinstance(config, GkeTargetConfig):
                continue
            whole = jobset(config, submission_of(Wanted(NAME, "image"), config))
            if not asked:
                where, version = version_of(config)
                asked = True
            if (old := too_old(version, whole, where)) is not None:
                what = f"variant {variant.name}: {old.what}"
                problems.append(replace(old, place=_place(session, variant), what=what))
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
def _drafts(session: Session) -> Iterator[str]:
    """Yields a folder with the target files of all variants, which goes with the block: this only looks."""
    base = _base_of(session)
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        for one in session.config.variants:
            Path(f"{folder}/{one.name}.yaml").write_bytes(_text(base, one))
        yield folder


def _one_of_each(session: Session) -> list[Turn]:
    turns = {turn.variant.name: turn for turn in session.turns() if turn.repeat is not None}
    return [turns[one.name] for one in session.config.variants]


def _unencrypted(session: Session, variant: Variant) -> Iterator[Problem]:
    """Yields why what a variant writes would not be encrypted, though it has to be."""
    program = session.config.training
    if not variant.is_encrypting:
        return
    key = "output: gs://BUCKET/FOLDER" if isinstance(program, str) else "checkpoints: gs://BUCKET/{run}"
    place = session.output if isinstance(program, str) else program.checkpoints
    if not place.startswith("gs://"):
        what = f"{place} is a folder, and proxies stand before Cloud Storage only"
        yield Problem("error", None, what, fix=f"write {key}")
    elif variant.sidecar and (why := unmapped(variant.sidecar, place)):
        fix = "give it BUCKET:projects/P/locations/L/keyRings/R/cryptoKeys/K,…, and let it encrypt"
        yield Problem("error", None, why, fix=fix)
    elif (
        variant.encryption and not isinstance(program, str) and (why := uncovered(variant.encryption, place))
    ):
        yield Problem("error", None, why, fix="add its bucket")  # of a suite, each run's own check says so


def _place(session: Session, variant: Variant) -> Place:
    return place_of(root_of(Path(session.file)), ("variants", session.config.variants.index(variant)))
