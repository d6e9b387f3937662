"""What is wrong with what all variants of an acceptance share, each thing told where the file speaks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.overrides import apply_overrides
from runtime.contract.suite_reader import read_suite
from runtime.contract.yamlfile import Node, place_of, read_text
from tasks.config.acceptance import Variant
from tasks.config.acceptance_turns import Session
from tasks.config.beside_file import located
from tasks.config.envfile import looks_secret, resolve_env
from tasks.config.locate import locate
from tasks.stages.flags_in_files import as_keys
from tasks.targets.target_file import checked_target


def of_all(session: Session, root: Node) -> list[Problem]:
    """Returns what is wrong with target, training, set:, env: and env_file: by themselves. `root`: the file's content.

    What is wrong inside the files that they name has its place there.
    """
    training = session.config.training
    problems = list(_named(session, root, "target"))
    if isinstance(training, str):
        problems += _named(session, root, "training") or _of_suite(session, root)
    problems += _of_environment(session, root)
    return problems


def of_variants(
    session: Session, root: Node, found: Sequence[tuple[Variant, Sequence[Problem]]], drafts: str
) -> list[Problem]:
    """Returns what was found of each variant: what is the same of all of them once, at what they share.

    `drafts`: the folder of their target files, which go when they have been looked at.
    """
    stated = [{(one.what, one.why) for one in problems} for _, problems in found]
    everywhere = set.intersection(*stated) if stated else set()
    told: list[Problem] = []
    for variant, problems in found:
        where = place_of(root, ("variants", session.config.variants.index(variant)))
        for one in problems:
            inside = one.place is None or one.place.file.startswith(drafts)
            if not inside:
                told.append(one)
            elif (one.what, one.why) in everywhere:
                key = "training" if one.place is None else "target"
                told.append(replace(as_keys(one), place=place_of(root, (key,))))
            else:
                what = f"variant {variant.name}: {one.what}"
                told.append(replace(as_keys(one, "variant"), place=where, what=what))
    return list(dict.fromkeys(told))


def _named(session: Session, root: Node, key: str) -> list[Problem]:
    """Returns why the file that a key names is none, or what is wrong in it."""
    word = located(str(getattr(session.config, key)), session.base)
    place = place_of(root, (key,))
    try:
        path = locate(word, "targets" if key == "target" else "suites")
    except BadInput as refusal:
        return [replace(one, place=place) for one in refusal.problems]
    if key == "target":
        return _refused(lambda: checked_target(path))
    return _refused(lambda: read_suite(read_text(path), str(path)))


def _of_suite(session: Session, root: Node) -> list[Problem]:
    """Returns what set: makes wrong of a suite that is right by itself: at the first entry after which it is."""
    path = locate(located(str(session.config.training), session.base), "suites")
    text, given = read_text(path), session.config.set
    final = _refused(lambda: read_suite(apply_overrides(text, given, str(path)), str(path)))
    problems: list[Problem] = []
    for number in range(len(given)):
        whole = _refused(_overridden(text, given[: number + 1], path))
        new = [one for one in whole if one in final]
        place = place_of(root, ("set", number))
        problems += [_of_entry(one, given[number], place) for one in new]
        final = [one for one in final if one not in new]
    return problems


def _overridden(text: str, given: Sequence[str], path: Path) -> Callable[[], object]:
    return lambda: read_suite(apply_overrides(text, given, str(path)), str(path))


def _of_entry(problem: Problem, entry: str, place: Place) -> Problem:
    what = problem.what if problem.what.startswith("override ") else f"{entry!r}: {problem.what}"
    return replace(problem, place=place, what=what)


def _of_environment(session: Session, root: Node) -> Iterator[Problem]:
    for number, entry in enumerate(session.config.env):
        place = place_of(root, ("env", number))
        yield from (replace(one, place=place) for one in _unreadable([entry], []))
        name, equals, _ = entry.partition("=")
        if equals and looks_secret(name):
            what = f"{name} sounds like a secret, which the file and its runs' parameters would keep"
            fix = f"write {name} alone, which takes the value from the environment, or a file as env_file:"
            yield Problem("error", place, what, fix=fix)
    for number, file in enumerate(session.env_files):
        for one in _unreadable([], [file]):
            if one.place is None or one.place.line is None:  # it is no line of the file
                one = replace(one, place=place_of(root, ("env_file", number)), what=f"{file}: {one.what}")
            yield one


def _unreadable(env: Sequence[str], files: Sequence[str]) -> list[Problem]:
    return _refused(lambda: resolve_env(env, files, {}))


def _refused(look: Callable[[], object]) -> list[Problem]:
    try:
        look()
    except BadInput as refusal:
        return list(refusal.problems)
    return []
