"""`slicebench explain RUN`: what state a run is in, why, by what evidence, and what to do next."""

from __future__ import annotations

from dataclasses import asdict

from flows.cli.report import Which
from flows.cli.runs import Output
from flows.cli.said import Json, print_json
from runtime.contract.errors import ExitCode
from tasks.explain.scene import Line, Trouble
from tasks.history.quantities import moment, printable
from tasks.leases.opening import the_ledger
from tasks.stages.by_lease import find_anywhere
from tasks.stages.explain import Explanation
from tasks.stages.explain import explain as explain_run

_SINCE = {"done": "ended", "failed": "ended", "interrupted": "ended", "dead": "in that stage since"}
"""What the time of a state is the time of."""


def explain(run: Which = "latest", /, *, output: Output = None, json: Json = False) -> int:
    """Say what state a run is in, why, by what evidence, and which command comes next."""
    folder = find_anywhere(output, run, the_ledger)
    told = explain_run(folder, folder.uri.rstrip("/").rsplit("/", 1)[-1], the_ledger())
    if json:
        print_json({"run": folder.uri, **asdict(told)})
    else:
        print("\n".join(printable(line) for line in _lines(told)))
    return ExitCode.DONE


def _lines(told: Explanation) -> list[str]:
    when = f" ({_SINCE.get(told.state, 'since')} {moment(told.since)})" if told.since is not None else ""
    lines = [f"{told.run_id}: {told.summary}{when}"]
    lines += [f"  cause: {line.text}  [{line.place}]" for line in told.causes]
    for trouble in told.likely:
        lines += _trouble(trouble, "")
    for trouble in told.also:
        lines += _trouble(trouble, "also in the logs: ")
    lines += [
        f"  worker {seen.worker}: {seen.doing}, since {moment(seen.since)}  [{seen.line.place}]"
        for seen in told.workers
        if seen.step != "exited" or not told.causes
    ]
    lines += [f"  stacks: {place}" for place in told.stacks]
    if told.lease:
        lines.append(f"  lease: {told.lease}")
    lines += [f"  {standing}" for standing in told.standing]
    if told.state != "done":
        lines += [_line("said last", line) for line in told.last_words]
    lines += [f"  not known: {what}" for what in told.unknown]
    lines += [f"  see {label}: {link}" for label, link in told.links]
    lines += [f"  next: {command}" for command in told.next]
    return lines


def _trouble(trouble: Trouble, prefix: str) -> list[str]:
    return [
        f"  {prefix}{trouble.what} ({trouble.name})",
        *(_line("  seen", line) for line in trouble.evidence),
    ]


def _line(word: str, line: Line) -> str:
    return f"  {word}: {line.place}: {line.text.strip()[:300]}"
