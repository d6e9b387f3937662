"""`slicebench history compact|retain`: keeps the history quick to read, and no longer than anybody needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.history import History
from flows.cli.said import Json, print_json, say
from flows.cli.wrong_flags import checked_range, refuse_empty
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.history.dataset.compaction import Compacted


def compact(*, history: History = None, json: Json = False) -> int:
    """Merge each month's files into one. Readers and writers may go on meanwhile; one that was cut off is finished."""
    refuse_empty({"--history": history})
    from tasks.stages.history import compact_all
    from tasks.stages.history_place import writable_history

    dataset = writable_history(history)
    return _told(compact_all(dataset), dataset.folder.uri, json)


def retain(
    *,
    days: Annotated[int, Parameter(help="Keep runs that began within so many days; older ones are deleted")],
    history: History = None,
    json: Json = False,
) -> int:
    """Delete older runs from the history. The runs' own folders stay as they are."""
    checked_range("--days", days, 1)
    refuse_empty({"--history": history})
    from tasks.stages.history import retain_days
    from tasks.stages.history_place import writable_history

    dataset = writable_history(history)
    done = retain_days(dataset, days)
    if not json:
        print(f"deleted: {counted(done.runs, 'run')} that began more than {counted(days, 'day')} ago")
    return _told(done, dataset.folder.uri, json)


def _told(done: Compacted, where: str, json: bool) -> int:
    if json:
        files = {"files_before": done.before, "files_after": done.after, "half_written": done.cleared}
        print_json({"history": where, **files, "runs_deleted": done.runs, "troubles": list(done.troubles)})
    else:
        print(f"{counted(done.before, 'file')} became {done.after} in {where}")
        if not done.before:
            say("no run was taken in yet")
        if done.cleared:
            say(f"deleted: {counted(done.cleared, 'file')} that somebody was writing when killed")
        for trouble in done.troubles:
            say(trouble)
    return ExitCode.DONE
