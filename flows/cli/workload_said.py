"""What commands about workloads print: a table of them, and what is known of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flows.cli import tables

if TYPE_CHECKING:
    from tasks.explain.scene import Line, Trouble
    from tasks.stages.workload_explained import Explained
    from tasks.targets.kube_rows import Row

_HEADINGS = ("NAME", "CREATED", "PRIORITY", "NEEDED", "RUNNING", "DONE", "STATUS", "MESSAGE", "SINCE")


def table(found: list[Row], *, everywhere: bool = False) -> list[str]:
    """Returns workloads as lines of a table, its headings first. `everywhere`: with their namespaces."""
    from tasks.history.quantities import moment, printable

    cells = [
        (
            *((row.namespace,) if everywhere else ()),
            row.name,
            moment(row.created) if row.created else "–",
            row.priority or "–",
            str(row.needed),
            str(row.running),
            str(row.done),
            str(row.status),
            _message(row),
            moment(row.time) if row.time else "–",
        )
        for row in found
    ]
    headings = ("NAMESPACE", *_HEADINGS) if everywhere else _HEADINGS
    return tables.lines(headings, [tuple(printable(cell) for cell in line) for line in cells])


def _message(row: Row) -> str:
    place = f" ({row.position})" if row.position else ""
    told = " ".join(f"{row.reason}: {row.message}".split())
    return f"{told if len(told) <= 100 else f'{told[:99]}…'}{place}"


def lines_of(told: Explained) -> list[str]:
    """Returns what is known of one workload, for people: what keeps it, by what evidence, and what comes next."""
    from tasks.history.quantities import moment

    found = told.found
    since = f" since {moment(found.since)}" if found.since is not None else ""
    attempt = f", attempt {found.attempt}" if found.attempt > 1 else ""
    place = f", {found.position}" if found.position else ""
    lines = [f"{told.name}: {found.state} ({found.reason}{attempt}{place}){since}"]
    lines += [f"  {found.message}"] if found.message else []
    for trouble in told.troubles:
        lines += _trouble(trouble)
    lines += [f"  not known: {what}" for what in told.unknown]
    lines += [f"  see {label}: {link}" for label, link in told.links]
    commands = dict.fromkeys(command for trouble in told.troubles for command in trouble.next)
    return lines + [f"  next: {command}" for command in commands]


def _trouble(trouble: Trouble) -> Iterable[str]:
    yield f"  {trouble.what} ({trouble.name})"
    yield from (_evidence(line) for line in trouble.evidence)
    if trouble.unknown:
        yield f"    not known: {trouble.unknown}"


def _evidence(line: Line) -> str:
    return f"    seen: {line.place}: {line.text.strip()[:400]}"


def cause_of(told: Explained) -> str | None:
    """Returns what it failed of first; None: of nothing."""
    return str(told.found.cause) if told.found.cause else None


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines that came from elsewhere, without what would move the cursor."""
    from tasks.history.quantities import printable

    for line in lines:
        print(printable(line), flush=True)
