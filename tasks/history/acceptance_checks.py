"""What an acceptance proves of a variant: where it went on, and its losses. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runtime.contract.counting import counted
from tasks.history.acceptance import Check, Start

RESUMED = "goes on from the newest complete checkpoint"
LOSSES = "the loss goes on as without the stop"
SEALED = "what lies in the bucket is not the plaintext"
AROUND = "reading around the proxy fails"


def went_on(repeats: Sequence[Sequence[Start]]) -> Check:
    """Proves of each start but the first that it restored the newest step that was complete before it, and no other.

    What ended by accident may have completed more than was heard of; and what did so before it said anything, proves
    nothing: the next start does.
    """
    proven: list[int] = []
    for repeat in repeats:
        told = [start for start in repeat[1:] if not start.is_silent]
        if repeat[1:] and not told:
            return Check(RESUMED, None, "started again, it never said from where it went on")
        for start in told:
            if start.newest is None and start.seen:
                return Check(RESUMED, None, "no checkpoint was complete when it was stopped")
            if start.newest is not None and (wrong := _not_from_newest(start, start.newest)):
                return Check(RESUMED, False, wrong)
            proven += [] if start.resumed is None else [start.resumed]
    if not proven:
        return Check(RESUMED, None, "it was never started again")
    return Check(RESUMED, True, f"from step {', '.join(map(str, proven))}")


def _not_from_newest(start: Start, newest: int) -> str:
    """Says what is wrong with where a start went on; empty: nothing."""
    if start.resumed is None:
        return f"it began anew, and step {newest} was complete"
    if start.resumed < newest or (start.seen and start.resumed != newest):
        return f"it went on from step {start.resumed}, and the newest complete one was {newest}"
    return ""


def losses_go_on(
    repeats: Sequence[Sequence[Start]], known: Mapping[int, float] | None = None, tolerance: float = 0.0
) -> Check:
    """Proves that losses after a restart are those of training that was not stopped there.

    They are held against those of the starts before, which had got further than their checkpoint, and against `known`:
    of the same training without a stop. `tolerance`: a fraction of the loss; zero: every bit is the same. Training
    whose loss is no number any more does nothing that could be held against anything.
    """
    compared: set[int] = set()
    told = [known or {}, *(start.losses for repeat in repeats for start in repeat)]
    if not any(losses for losses in told[1:]):
        return Check(LOSSES, None, "no run told a loss")
    if broken := [
        (step, loss) for losses in told for step, loss in losses.items() if not math.isfinite(loss)
    ]:
        return Check(LOSSES, False, f"step {broken[0][0]}: the loss is {broken[0][1]}, which proves nothing")
    for repeat in repeats:
        expected = [known or {}]
        for number, start in enumerate(repeat):
            if number and (wrong := _unlike(start, expected, tolerance, compared)):
                return Check(LOSSES, False, wrong)
            expected.append(start.losses)
    if not compared:
        return Check(LOSSES, None, "no step after a restart was done without one too")
    same = "equal to the bit" if tolerance == 0 else f"equal within {100 * tolerance:g} %"
    return Check(LOSSES, True, f"{counted(len(compared), 'step')} {same}")


def _unlike(
    start: Start, expected: Sequence[Mapping[int, float]], tolerance: float, compared: set[int]
) -> str:
    """Says what of a start after a stop is not as it has to be; empty: nothing. Steps that are go to `compared`."""
    if start.resumed is not None and (early := [step for step in start.losses if step <= start.resumed]):
        return f"it says to go on from step {start.resumed}, and did step {min(early)} again"
    for step, loss in sorted(start.losses.items()):
        for told in (one[step] for one in expected if step in one):
            if not _same(loss, told, tolerance):
                return f"step {step}: {loss!r}, and {told!r} without the stop"
            compared.add(step)
    return ""


def _same(here: float, there: float, tolerance: float) -> bool:
    if tolerance == 0:
        return here == there
    return math.isclose(here, there, rel_tol=tolerance)
