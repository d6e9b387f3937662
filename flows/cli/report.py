"""`slicebench report RUN`: where the report of a run lies, and its table; with --json its numbers."""

from __future__ import annotations

import sys
import time
from typing import Annotated

from cyclopts import Parameter

from flows.cli.runs import Output
from flows.cli.said import Json, print_json, say
from runtime.contract.errors import ExitCode
from tasks.cloud.storage import Folder, is_there
from tasks.leases.opening import the_ledger
from tasks.stages.by_lease import find_anywhere
from tasks.stages.files import REPORT_FILE

Which = Annotated[str, Parameter(help="Id of the run, the beginning of one, or: latest")]


def report(run: Which = "latest", /, *, output: Output = None, json: Json = False) -> int:
    """Print where the report of a run lies, with its table of results; a missing report is made again.

    With --json: its verdict and numbers, in seconds and bytes; docs/results.md says what each is.
    """
    folder = find_anywhere(output, run, the_ledger)
    from tasks.history.figures import no_figures, run_figures
    from tasks.history.reading import load_results, load_verdicts
    from tasks.history.table import print_table
    from tasks.stages.monitored import is_due, pull
    from tasks.stages.report import report_folder, unjudged

    results = load_results(folder)
    where = _existing(folder)
    if where is None or is_due(folder, results, time.time()):
        if results is not None and where is not None:
            pull(folder, results, say)
        where = report_folder(folder)
    if results is None:  # an old report beside results that are gone: there is a page, and no numbers
        if json:
            print_json({"report": where, **no_figures(folder.uri.rpartition("/")[2])})
        else:
            print(where)
        return ExitCode.DONE
    verdicts = load_verdicts(folder) or unjudged(results)
    if json:
        print_json({"report": where, **run_figures(results, verdicts)})
        return ExitCode.DONE
    print_table(results, verdicts)
    sys.stderr.flush()
    print(where)
    return ExitCode.DONE


def _existing(folder: Folder) -> str | None:
    return f"{folder.uri}/{REPORT_FILE}" if is_there(folder, REPORT_FILE) else None
