"""The report as a Prefect task, with table, verdict and links as artifacts."""

from __future__ import annotations

from prefect import task

from runtime.contract.names import LOGS_FOLDER
from tasks.artifacts import escaped, key_of, post_markdown, post_table, where_lie
from tasks.naming import stage_options
from tasks.stages.context import Run


@task(**stage_options("report"))
def report(run: Run) -> str:
    """Writes the report; returns where it lies."""
    # Slow: see tasks/preload.py.
    from tasks.history.columns import table_rows
    from tasks.history.reading import load_results, load_verdicts
    from tasks.stages import report as stage

    where = stage.report(run)
    results, verdicts = load_results(run.folder), load_verdicts(run.folder)
    if results is not None and verdicts is not None:
        suite = run.spec.suite_name
        told = f"{verdicts.of_run(results)}: {verdicts.reason}"
        post_table(run.say, key_of("results", suite), table_rows(results, verdicts), told)
        post_markdown(run.say, key_of("report", suite), _page(run, told, where), "Verdict, report and logs")
    return where


def _page(run: Run, verdict: str, report: str) -> str:
    """Returns what leads from Prefect's UI to everything else."""
    logs = [f"{run.folder.uri}/{name}" for name in run.folder.names(LOGS_FOLDER) if name.endswith(".log")]
    return "\n\n".join(
        (
            f"## {escaped(verdict)}",
            "Report:",
            where_lie([report]),
            "Full logs:",
            where_lie(logs),
        )
    )
