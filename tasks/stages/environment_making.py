"""One thing of an environment made: once, whatever becomes of the call and of its reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tasks.cloud.container_errors import AlreadyExists, Throttled, Unanswered, Unavailable
from tasks.cloud.things import Nameless, Sort, same_owner
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried
from tasks.leases.environments import TENSORBOARD
from tasks.targets.environment_wanted import Wanted

if TYPE_CHECKING:
    from tasks.stages.environment_desk import Desk

Seen = TypeVar("Seen")


def made(desk: Desk, sort: Sort, wanted: Wanted, labels: Mapping[str, str]) -> str:
    """Makes a thing; returns its uid. One of the same lease that is there already is it: a reply may be lost."""
    if isinstance(sort, Nameless):
        return _made_nameless(desk, sort, wanted, labels)
    for pause in pauses(desk.timing, f"make {wanted}"):
        try:
            sort.make(wanted.scope, wanted.name, wanted.fields, labels)
        except (AlreadyExists, Unavailable) as error:
            there = None if isinstance(error, Throttled) else sort.look(wanted.scope, wanted.name)
            if there is not None:
                if wanted.kind.endswith("role") or same_owner(there.labels, labels):
                    return there.uid
                raise AlreadyExists(f"{wanted} was made by somebody else: choose another name") from error
            if pause is None or isinstance(error, AlreadyExists):
                raise
            tried(str(error))
        else:
            there = sort.look(wanted.scope, wanted.name)
            if there is not None:
                return there.uid
            if pause is None:
                raise Unavailable(f"{wanted} was made, and is not seen: do the same again")
        time.sleep(pause)
    raise AssertionError("the last pause is None")


def _made_nameless(desk: Desk, sort: Nameless, wanted: Wanted, labels: Mapping[str, str]) -> str:
    """The same of what has no name of its own: a second create would make a second one.

    So it is asked for again only where the service said that it did nothing; where it said nothing, it is looked for.
    """
    late_s = desk.inventories[TENSORBOARD].settle_s

    def first() -> str | None:
        return next((one.uid for one in sort.made(wanted.scope)), None)

    for pause in pauses(desk.timing, f"make {wanted}"):
        unknown: Unavailable | None = None
        try:
            sort.make(wanted.scope, wanted.name, wanted.fields, labels)
        except Unavailable as error:
            if pause is None:
                raise
            tried(str(error))
            unknown = error
        surely_not = unknown is not None and not isinstance(unknown, Unanswered)
        if (uid := seen_within(0.0 if surely_not else late_s, first, desk.timing)) is not None:
            return uid
        if not surely_not:
            raise Unavailable(
                f"whether {wanted} was made is not known, and it is not seen: do the same again"
            ) from unknown
        assert pause is not None
        time.sleep(pause)
    raise AssertionError("the last pause is None")


def seen_within(late_s: float, look: Callable[[], Seen | None], timing: Timing) -> Seen | None:
    """Returns what is seen, looking for so many seconds; once at least. None: nothing was."""
    until = time.monotonic() + late_s
    while True:
        seen, late = look(), time.monotonic() >= until
        if seen is not None or late:
            return seen
        time.sleep(timing.first_pause_s)
