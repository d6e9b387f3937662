"""`slicebench history …`: the numbers of all runs, night by night: takes runs in, lists the series, shows one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say, tell_plot
from flows.cli.wrong_flags import checked_range, refuse_empty
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.history.dataset.store import Dataset
    from tasks.stages.history import Looked

History = Annotated[
    str | None,
    Parameter(
        help="Where it lies: a path or gs://…; default: $SLICEBENCH_HISTORY, else $SLICEBENCH_HOME/history"
    ),
]
Which = Annotated[
    str,
    Parameter(help="Id of the series, a beginning of it, or words of its name; or a machine's id: machine-…"),
]


def import_(
    paths: Annotated[tuple[str, ...], Parameter(help="Runs, outputs with many, or baselines of Orbax's")],
    /,
    *,
    history: History = None,
    json: Json = False,
) -> int:
    """Import runs, or Orbax's baselines, into the history. What is in it already is not imported twice."""
    refuse_empty({"a path": min(paths), "--history": history})
    from tasks.stages.history import take_in
    from tasks.stages.history_place import writable_history

    dataset = writable_history(history, new=True)
    found = [one for path in paths for one in take_in(dataset, path)]
    took = [one for one in found if not one.why_not]
    if json:
        told = [{"what": one.what, "series": one.series, "why_not": one.why_not or None} for one in found]
        print_json({"history": dataset.folder.uri, "taken_in": told})
    else:
        for one in found:
            if one.why_not:
                say(f"not taken in: {one.what}: {one.why_not}")
        print(f"{counted(len(took), 'run')} in {dataset.folder.uri}")
    return ExitCode.DONE if len(took) == len(found) else ExitCode.INFRASTRUCTURE


def list_(
    words: Annotated[tuple[str, ...], Parameter(help="Only series whose names hold all of these")] = (),
    /,
    *,
    history: History = None,
    json: Json = False,
) -> int:
    """List the series of the history: what each measures, on what, how many nights, and the latest value."""
    refuse_empty({"--history": history})
    from tasks.history.dataset.lines import list_lines, series_object
    from tasks.stages.history import look, matches
    from tasks.stages.history_place import existing_history

    looked = look(existing_history(history))
    found = [one for one in looked.records.series.values() if matches(one, " ".join(words))]
    found.sort(key=lambda one: (one.name, one.about["track"], one.id))
    if json:
        series = [series_object(one) for one in found]
        print_json({"history": looked.where, "troubles": list(looked.troubles), "series": series})
        return ExitCode.DONE
    for line in list_lines(found):
        print(line)
    if not found:
        say(f"no series in {looked.where}" if not words else f"no series of that name in {looked.where}")
    _tell(looked)
    return ExitCode.DONE


def show(
    series: Which,
    /,
    *,
    last: Annotated[int, Parameter(help="How many nights to show")] = 20,
    plot: Annotated[bool, Parameter(help="Draw it on a page, too", negative="--no-plot")] = True,
    to: Annotated[
        str | None, Parameter(help="Folder for that page; default: $SLICEBENCH_HOME/series")
    ] = None,
    history: History = None,
    json: Json = False,
) -> int:
    """Show a series: its verdict, level and changes, and its latest nights, with what does not count and why."""
    checked_range("--last", last, 1)
    refuse_empty({"SERIES": series, "--history": history, "--to": to})
    from tasks.history.dataset.lines import show_lines, shown_object
    from tasks.history.dataset.of_machine import PREFIX
    from tasks.stages.history import look, shown_of
    from tasks.stages.history_place import existing_history

    dataset = existing_history(history)
    looked = look(dataset)
    if series.startswith(PREFIX):
        return _machine(dataset, looked, series, last, json=json)
    shown = shown_of(dataset, looked, looked.find(series))
    if json:
        print_json({"history": looked.where, "troubles": list(looked.troubles), **shown_object(shown)})
        return ExitCode.DONE
    for line in show_lines(shown, last):
        print(line)
    if plot:
        from tasks.cloud.storage import open_folder
        from tasks.config.home import series_folder
        from tasks.stages.history_site import write_page

        tell_plot(lambda: write_page(open_folder(to or str(series_folder())), shown), asked=to is not None)
    _tell(looked)
    return ExitCode.DONE


def _machine(dataset: Dataset, looked: Looked, word: str, last: int, *, json: bool) -> int:
    """Shows what all series of a machine are off by together."""
    from tasks.history.dataset.machine_lines import machine_lines, machine_object
    from tasks.stages.history import machine_called, of_machine

    group = machine_called(looked, word)
    decisions = of_machine(dataset, looked, group)
    if json:
        told = {"history": looked.where, "troubles": list(looked.troubles)}
        print_json({**told, **machine_object(group, decisions)})
        return ExitCode.DONE
    for line in machine_lines(group, decisions, last):
        print(line)
    _tell(looked)
    return ExitCode.DONE


def _tell(looked: Looked) -> None:
    for trouble in looked.troubles:
        say(trouble)
