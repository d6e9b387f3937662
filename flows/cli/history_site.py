"""`slicebench history site`: all series as pages that need no server, in a folder or a bucket."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.cli.history import History
from flows.cli.said import Json, print_json, say
from flows.cli.wrong_flags import refuse_empty
from runtime.contract.errors import ExitCode


def site(
    *,
    to: Annotated[str, Parameter(help="Folder that the pages are written into: a path or gs://…")],
    history: History = None,
    json: Json = False,
) -> int:
    """Write all series as pages: a table of all, and of each its nights, level and changes. They need no server."""
    refuse_empty({"--to": to, "--history": history})
    from tasks.cloud.storage import open_folder
    from tasks.stages.history import look
    from tasks.stages.history_place import existing_history
    from tasks.stages.history_site import INDEX, write_site

    dataset = existing_history(history)
    looked = look(dataset)
    folder = open_folder(to)
    count = write_site(folder, dataset, looked)
    where = f"{folder.uri}/{INDEX}"
    if json:
        told = {"site": where, "series": count, "troubles": list(looked.troubles)}
        print_json({"history": looked.where, **told})
        return ExitCode.DONE
    for trouble in looked.troubles:
        say(trouble)
    print(f"{count} series in {where}")
    return ExitCode.DONE
