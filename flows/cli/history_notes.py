"""`slicebench history exclude|include|annotate|accept`: what people say of nights, and the verdicts heed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.history import History, Which
from flows.cli.said import Json, print_json
from flows.cli.wrong_flags import refuse_empty
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.history.dataset.notes import Kind

Night = Annotated[str, Parameter(help="Name of the night, or id of one of its runs")]
Series = Annotated[
    str | None, Parameter(help="Of this series alone: its id, or words of its name; else of all")
]
Because = Annotated[str, Parameter(help="Why: shown beside it from then on")]


def exclude(
    night: Night,
    /,
    *,
    because: Because = "",
    series: Series = None,
    history: History = None,
    json: Json = False,
) -> int:
    """Exclude a night: no verdict and no baseline uses it. It stays in the history, with the reason."""
    return _note("exclude", night, because, series, history, json)


def include(
    night: Night,
    /,
    *,
    because: Because = "",
    series: Series = None,
    history: History = None,
    json: Json = False,
) -> int:
    """Include a night that was excluded."""
    return _note("include", night, because, series, history, json)


def annotate(
    night: Night,
    text: Annotated[str, Parameter(help="The sentence")],
    /,
    *,
    series: Series = None,
    history: History = None,
    json: Json = False,
) -> int:
    """Attach a note to a night. It changes no verdict."""
    refuse_empty({"the text": text})
    return _note("annotate", night, text, series, history, json)


def accept(
    series: Which,
    /,
    *,
    since: Annotated[
        str | None,
        Parameter(name="--from", help="First night of the new level; default: where the alert began"),
    ] = None,
    because: Because = "",
    history: History = None,
    json: Json = False,
) -> int:
    """Accept a series' level since a night as the expected one: its alert is closed."""
    refuse_empty({"SERIES": series, "--from": since, "--history": history})
    from tasks.stages.history_notes import accept_level
    from tasks.stages.history_place import writable_history

    noted = accept_level(writable_history(history), series, since, because)
    return _said(f"{noted.series}: the level is expected from {noted.night} on", noted, json)


def _note(kind: Kind, night: str, text: str, series: str | None, history: str | None, json: bool) -> int:
    refuse_empty({"NIGHT": night, "--series": series, "--history": history})
    if kind == "exclude" and not text:
        raise BadInput("a night is excluded for a reason, which stands beside it", fix="add --because REASON")
    from tasks.stages.history_notes import note_night
    from tasks.stages.history_place import writable_history

    noted = note_night(writable_history(history), kind, night, series, text)
    of = f" of {noted.series}" if noted.series else ""
    return _said(f"{noted.night}{of}: {_DONE[kind]}", noted, json)


_DONE = {"exclude": "counts for nothing", "include": "counts again", "annotate": "annotated"}


def _said(words: str, noted: object, json: bool) -> int:
    if json:
        print_json(vars(noted))
    else:
        print(words)
    return ExitCode.DONE
