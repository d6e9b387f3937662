"""`slicebench bisect SERIES`: which commit or version made a series slower, by running builds between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.history import History, Which
from flows.cli.said import Json, print_json, say
from flows.cli.wrong_flags import refuse_empty
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.stages.bisect import Bisected
    from tasks.stages.bisect_row import Build, Ends


def bisect(
    series: Which,
    /,
    *,
    good: Annotated[
        str | None, Parameter(help="A night in which it was good; default: before its latest change")
    ] = None,
    bad: Annotated[
        str | None, Parameter(help="A night in which it was bad; default: that of its latest change")
    ] = None,
    good_commit: Annotated[
        str | None, Parameter(help="Commit of the good night, where the history has none")
    ] = None,
    bad_commit: Annotated[str | None, Parameter(help="Commit of the bad night")] = None,
    repo: Annotated[
        str | None, Parameter(help="Repository of the commits; default: the one that was measured")
    ] = None,
    jax: Annotated[tuple[str, ...], Parameter(help="Versions of JAX between the two, in order")] = (),
    output: Annotated[
        str | None, Parameter(help="Folder for the runs; default: $SLICEBENCH_HOME/runs")
    ] = None,
    history: History = None,
    dry_run: Annotated[bool, Parameter(help="Only list the builds there are; run none", negative="")] = False,
    direct: Annotated[bool, Parameter(help="Without Prefect", negative="", show_default=False)] = False,
    json: Json = False,
) -> int:
    """Find the commit or version that made a series, or all of a machine, slower. Called again it goes on."""
    refuse_empty(
        {
            "SERIES": series, "--good": good, "--bad": bad, "--history": history, "--output": output, "--repo": repo,
            "--good-commit": good_commit, "--bad-commit": bad_commit,
        }
    )  # fmt: skip
    from flows.nights import hands
    from flows.signals import interrupting
    from tasks.config.home import runs_folder
    from tasks.history.bisection import CannotRun
    from tasks.stages.bisect import bisect as play
    from tasks.stages.bisect import runner, scatter_of
    from tasks.stages.bisect_machine import ends_called
    from tasks.stages.history import look
    from tasks.stages.history_place import existing_history

    dataset = existing_history(history)
    looked = look(dataset)
    ends = ends_called(dataset, looked, series, good, bad)
    builds = _builds(ends, (good_commit, bad_commit), repo, jax)
    say(f"{ends.shown.one.name}: good in {ends.good.night}, bad in {ends.bad.night}; {len(builds)} builds")
    if dry_run:
        return _show_row(ends, builds, json)
    stop = threading.Event()
    run = runner(ends, output or str(runs_folder()), hands(direct=direct), stop, say)
    try:
        with interrupting(say):
            found = play(builds, scatter_of(ends), run, say)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on with it")
        return ExitCode.INTERRUPTED
    for line in _told(found):
        print(line) if not json else say(line)
    if json:
        print_json(_object(ends, found))
    return ExitCode.INFRASTRUCTURE if isinstance(found.answer, CannotRun) else ExitCode.DONE


def _show_row(ends: Ends, builds: Sequence[Build], json: bool) -> int:
    if json:
        print_json({"series": ends.shown.one.id, "builds": [asdict(one) for one in builds]})
    else:
        print(*(build.words for build in builds), sep="\n")
    return ExitCode.DONE


def _builds(
    ends: Ends, named: tuple[str | None, str | None], repo: str | None, jax: tuple[str, ...]
) -> list[Build]:
    """Returns the row of builds; asks the repository for the commits between, where these differ."""
    from tasks.cloud.git_log import commits_between
    from tasks.config.home import sources_folder
    from tasks.stages.bisect_row import builds_of, commits_of, repo_of

    pair = commits_of(ends, *named)
    if pair is None:
        return builds_of(ends, [], None, jax)
    where = repo_of(ends, repo)
    say(f"listing the commits of {where} …")
    logged = commits_between(where, *pair, sources_folder(), say=say)
    return builds_of(ends, [(one.sha, one.subject) for one in logged], where, jax)


def _told(found: Bisected) -> list[str]:
    """Returns the answer in lines, and what it rests on."""
    import math

    from tasks.history.bisection import CannotRun, Found, NotReproduced
    from tasks.history.dataset.lines import table
    from tasks.history.quantities import percent, plus_minus

    answer, builds = found.answer, found.builds
    lines = []
    if isinstance(answer, Found):
        change = percent(math.expm1(answer.effect))
        several = builds[answer.last_good + 1 : answer.first_bad + 1]
        if len(several) == 1:
            lines.append(f"it was {several[0].words} ({change} from first to last)")
        else:
            lines.append(
                f"it was one of these {len(several)}, of which all but the last cannot run ({change}):"
            )
            lines += [f"  {build.words}" for build in several]
        lines += [f"not sure of {builds[unsure].words}: it lies between both" for unsure in answer.unsure]
    elif isinstance(answer, NotReproduced):
        change, reach = percent(math.expm1(answer.effect)), plus_minus(math.expm1(answer.reach))
        lines.append(
            f"first and last do not differ here and now ({change}, where {reach} would have been seen):"
        )
        lines.append("it is not the builds; was it the machine or the storage?")
    elif isinstance(answer, CannotRun):
        lines.append(f"{builds[answer.build].words} cannot run, so nothing can be compared with it")
    rows = [
        (builds[one.build].words, "–" if one.value is None else f"{one.value:.4g}", one.run_id, one.cause)
        for one in sorted(found.tried, key=lambda one: one.build)
    ]
    return [*lines, "", *table([("build", "median", "run", ""), *rows])]


def _object(ends: Ends, found: Bisected) -> dict[str, Any]:
    return {
        "series": ends.shown.one.id,
        "good": ends.good.night,
        "bad": ends.bad.night,
        "answer": {"kind": type(found.answer).__name__, **asdict(found.answer)},
        "builds": [asdict(one) for one in found.builds],
        "runs": [asdict(one) for one in found.tried],
    }
