"""`slicebench check`: says whether files are right, with nothing made and no benchmark imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import cyclopts

from flows.cli.file_kind import kind_of_file
from flows.cli.said import Json, print_json, say
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode, Problem
from runtime.contract.expand import dropped, expand
from runtime.contract.overrides import apply_overrides
from runtime.contract.suite import Suite
from runtime.contract.suite_reader import inspect_suite
from runtime.contract.yamlfile import load, place_of, read_text


@dataclass(frozen=True)
class Checked:
    """What is known of one file. `points` None: it is no suite, or one with errors. `notes`: what nobody checked."""

    file: str
    kind: str
    problems: tuple[Problem, ...]
    points: int | None = None
    summary: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can be used; warnings do not count."""
        return all(problem.severity == "warning" for problem in self.problems)


def check(
    *files: Annotated[
        str, cyclopts.Parameter(help="Suites, targets, nightlies, acceptances and environments: YAML files")
    ],
    set_: Annotated[
        tuple[str, ...],
        cyclopts.Parameter("--set", help="Override of a suite, KEY=VALUE, e.g. num_repeats=5"),
    ] = (),
    target: Annotated[
        str | None, cyclopts.Parameter(help="A target to check as well, and whether the suites fit it")
    ] = None,
    json: Json = False,
) -> int:
    """Check files for mistakes: each problem is told at its place, and of each suite how large it is.

    Where suites and targets are given, each suite is checked against each target.
    """
    files = (*files, target) if target is not None else files
    if not files:
        raise BadInput("no file to check", fix="name one: slicebench check configs/suites/quickstart.yaml")
    checked = [check_file(_found(file), set_) for file in files]
    checked += _pairs(checked, set_)
    for each in checked:
        _tell(each)
    if json:
        print_json({"ok": all(each.ok for each in checked), "files": [_plain(each) for each in checked]})
    return ExitCode.DONE if all(each.ok for each in checked) else ExitCode.BAD_INPUT


def _pairs(checked: Sequence[Checked], overrides: tuple[str, ...]) -> Iterator[Checked]:
    """Yields of each right suite with each right target whether it fits there."""
    from flows.cli.check_fit import fit_of

    right = [one for one in checked if one.ok]
    for suite in [one for one in right if one.kind == "suite"]:
        for target in [one for one in right if one.kind == "target"]:
            problems, summary = fit_of(suite.file, target.file, overrides)
            pair = f"{suite.file} on {target.file}"
            told = tuple(
                replace(one, what=one.what if one.place else f"{pair}: {one.what}") for one in problems
            )
            yield Checked(pair, "fit", told, summary=summary)


def _found(word: str) -> str:
    """Returns the path of what is called by its name in configs/, as `run` takes it; else the word."""
    if not word:
        raise BadInput(
            "a file's name is empty", fix="name one: slicebench check configs/suites/quickstart.yaml"
        )
    from tasks.config.locate import named, shortened

    try:
        if "/" in word or Path(word).exists():
            return word
    except (OSError, ValueError) as error:  # no name of a file
        raise BadInput(f"{shortened(word)}: {getattr(error, 'strerror', None) or error}") from None

    return str(
        named(word, "suites")
        or named(word, "targets")
        or named(word, "nightly")
        or named(word, "acceptance")
        or named(word, "environments")
        or word
    )


def check_file(file: str, overrides: tuple[str, ...] = ()) -> Checked:
    """Returns what is known of a file; what kind it is, its keys tell."""
    try:
        text = read_text(file)
        root = load(text, file).root
        kind = kind_of_file(root.entries) if root is not None else "suite"
        if kind == "target":
            return _check_target(file)
        if kind == "nightly":
            return _check_nightly(file)
        if kind == "acceptance":
            return _check_acceptance(file)
        if kind == "environment":
            return _check_environment(file, overrides)
        text = apply_overrides(text, overrides, file) if overrides else text
    except BadInput as refusal:
        return Checked(file, "unknown", refusal.problems)
    suite, problems = inspect_suite(text, file)
    if suite is None:
        return Checked(file, "suite", tuple(problems))
    points = len(expand(suite))
    return Checked(file, "suite", tuple(problems), points, _summary(suite, points), _notes(suite))


def _check_target(file: str) -> Checked:
    from tasks.config.load import root_of
    from tasks.targets.beside import key_files
    from tasks.targets.target_file import checked_target

    try:
        config = checked_target(Path(file))
    except BadInput as refusal:
        return Checked(file, "target", refusal.problems)
    keys = key_files(config.encryption) if config.encryption is not None else []
    place = place_of(root_of(Path(file)), ("encryption", "keys"))
    return Checked(
        file, "target", _elsewhere([replace(one, place=place) for one in keys]), summary="a target"
    )


def _elsewhere(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Returns as warnings what need not be so where the file is used: there may be other key files."""
    return tuple(replace(one, severity="warning") for one in problems)


def _check_nightly(file: str) -> Checked:
    from tasks.cloud.prices import prices_kept
    from tasks.stages.nightly import open_night
    from tasks.stages.nightly_plan import problems_of

    try:
        with prices_kept():
            night = open_night(str(Path(file).absolute()), None)
            problems = tuple(problems_of(night))
    except BadInput as refusal:
        return Checked(file, "nightly", refusal.problems)
    cells = counted(len(night.cells()), "cell")
    return Checked(file, "nightly", problems, summary=f"a nightly of {cells}")


def _check_acceptance(file: str) -> Checked:
    from tasks.stages.acceptance import open_acceptance
    from tasks.stages.acceptance_plan import bad_keys, plan_session

    try:
        session = open_acceptance(str(Path(file).absolute()), "check")
        plan_session(session)
    except BadInput as refusal:
        return Checked(file, "acceptance", refusal.problems)
    runs = counted(len(session.turns()), "run")
    return Checked(file, "acceptance", _elsewhere(bad_keys(session)), summary=f"an acceptance of {runs}")


def _check_environment(file: str, overrides: tuple[str, ...]) -> Checked:
    from tasks.config.environment_file import load_environment

    try:
        config = load_environment(file, overrides)
    except BadInput as refusal:
        return Checked(file, "environment", refusal.problems)
    return Checked(
        file, "environment", (), summary=f"an environment of {counted(config.tpu_pools, 'TPU pool')}"
    )


def _summary(suite: Suite, points: int) -> str:
    repeats = suite.adaptive.words if suite.adaptive else counted(suite.num_repeats, "repeat")
    warmup = f" after {suite.warmup} to warm up" if suite.warmup else ""
    left_out = len(dropped(suite))
    invalid = f", {counted(left_out, 'invalid combination')} of options left out" if left_out else ""
    return f"{counted(points, 'benchmark')}, {repeats} each{warmup}{invalid}"


def not_looked_at(generator: str) -> str:
    """Returns the note on a class of the user's, which no command imports: when it will be looked at."""
    return (
        f"note: generator {generator} and its options are not looked at here, as code of yours is only imported where "
        "it runs: in the first stage of a run, build; on other hosts, as the workers begin"
    )


def _notes(suite: Suite) -> tuple[str, ...]:
    users = [item for item in suite.benchmarks if item.implementation == "user"]
    return tuple(f"{item.place}: {not_looked_at(item.generator)}" for item in users)


def _tell(checked: Checked) -> None:
    say(*map(str, checked.problems), *checked.notes)
    if checked.ok:
        say(f"{checked.file}: ok, {checked.summary}")


def _plain(checked: Checked) -> dict[str, Any]:
    return {
        "file": checked.file,
        "kind": checked.kind,
        "ok": checked.ok,
        "points": checked.points,
        "problems": [_plain_problem(problem) for problem in checked.problems],
        "notes": list(checked.notes),
    }


def _plain_problem(problem: Problem) -> dict[str, Any]:
    place = problem.place
    return {
        "severity": problem.severity,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "what": problem.what,
        "why": problem.why,
        "fix": problem.fix,
    }
