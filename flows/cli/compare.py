"""`slicebench compare RUN --to RUN`: two runs, repeat against repeat; what is not comparable is refused, with why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.history import History
from flows.cli.report import Which
from flows.cli.runs import Output
from flows.cli.said import Json, print_json, say, tell_plot
from flows.cli.wrong_flags import refuse_empty
from runtime.contract.errors import ExitCode
from tasks.cloud.storage import open_folder
from tasks.config.home import runs_folder

if TYPE_CHECKING:
    from tasks.history.pair import Comparison, Pair

_UNKNOWN = (
    "how much runs differ by themselves is not known of all of these: the interval is that of their repeats alone. "
    "slicebench history import takes earlier runs in"
)


def compare(
    run: Which,
    /,
    *,
    to: Annotated[
        str, Parameter(help="The run to compare it with: as RUN, or a path or gs:// of its folder")
    ],
    output: Output = None,
    history: History = None,
    plot: Annotated[
        bool, Parameter(help="Also draw every repeat of both on a page", negative="--no-plot")
    ] = True,
    page: Annotated[
        str | None, Parameter(help="Folder for that page; default: $SLICEBENCH_HOME/comparisons")
    ] = None,
    json: Json = False,
) -> int:
    """Compare a run with another: of each series medians, the change with its interval, how often it is larger."""
    refuse_empty({"RUN": run, "--to": to, "--output": output, "--history": history, "--page": page})
    from tasks.stages.compare_runs import compare_two

    found, usual = compare_two(open_folder(output or str(runs_folder())), run, to, history)
    if json:
        print_json(_object(found))
        return ExitCode.DONE
    from tasks.history.dataset.lines import table

    for name, (before, now) in found.versions.items():
        print(f"{name}: {before} → {now}")
    if found.pairs:
        for line in table([_headings(found), *(_row(pair) for pair in found.pairs)]):
            print(line)
    say(*found.left_out, *usual.troubles)
    if any(pair.usual is None for pair in found.pairs):
        say(_UNKNOWN)
    if plot:
        tell_plot(lambda: _plotted(found, page), asked=page is not None)
    return ExitCode.DONE


def _plotted(found: Comparison, page: str | None) -> str:
    """Draws two runs on a page; returns where it lies."""
    from tasks.config.home import comparisons_folder
    from tasks.history.report.compared import render_compared

    folder, name = open_folder(page or str(comparisons_folder())), f"{found.here}-to-{found.there}.html"
    folder.write(name, render_compared(found, _UNKNOWN).encode())
    return f"{folder.uri}/{name}"


def _headings(found: Comparison) -> tuple[str, ...]:
    return (
        "benchmark",
        "what",
        found.there,
        found.here,
        "change",
        "interval",
        "larger in",
        "runs differ by",
        "",
    )


def _row(pair: Pair) -> tuple[str, ...]:
    from tasks.history import changes
    from tasks.history.intervals import median
    from tasks.history.quantities import plus_minus, quantity

    effect = pair.effect
    memory = {"s": "", "bytes": " device memory" if pair.metric.startswith("device") else " memory"}
    return (
        pair.label,
        f"{pair.operation}{memory[pair.unit]}",
        quantity(median(pair.there), pair.unit),
        quantity(median(pair.here), pair.unit),
        changes.change(effect) if effect else "–",
        (changes.interval(effect) if effect else "") or "–",
        f"{100 * pair.larger:.0f} % of pairs",
        "not known" if pair.usual is None else plus_minus(pair.usual),
        pair.word,
    )


def _object(found: Comparison) -> dict[str, Any]:
    return {
        "run": found.here,
        "to": found.there,
        "versions": {name: list(both) for name, both in found.versions.items()},
        "left_out": list(found.left_out),
        "series": [_series(pair) for pair in found.pairs],
    }


def _series(pair: Pair) -> dict[str, Any]:
    effect = pair.effect
    names = ("label", "benchmark_key", "operation", "metric", "unit", "larger", "usual")
    return {
        **{name: getattr(pair, name) for name in names},
        "values": list(pair.here),
        "to_values": list(pair.there),
        "change": effect.effect if effect else None,
        "change_low": effect.low if effect else None,
        "change_high": effect.high if effect else None,
        "finding": pair.word,
    }
