"""Nightly alarms by Otava or by asv's rule: a script for a venv of their own, which shares no code with ours.

python detection_peers.py otava|asv < array of (series, nights) seconds as .npy, with the first night that is judged
"""

import io
import itertools
import json
import signal
import sys

import numpy as np


def otava(values):
    """Returns the nights in which values go up, by Otava's test with its own defaults."""
    from otava.analysis import compute_change_points

    points, _ = compute_change_points(list(values))
    edges = [0, *(point.index for point in points), len(values)]
    parts = [values[begin:end].mean() for begin, end in itertools.pairwise(edges)]
    return [
        point.index
        for point, (before, after) in zip(points, itertools.pairwise(parts), strict=True)
        if after > before
    ]


def asv(values):
    """Returns the same by asv's detection of regressions, at half of the step: its default would be all of it."""
    from asv.step_detect import detect_regressions, detect_steps

    _, _, positions = detect_regressions(detect_steps(list(values)), threshold=0.025)
    return [after for _, after, _, _ in positions or []]


class NoAnswer(Exception):
    """A peer took longer than ANSWER_S for one series of one night: some that asv searches it never finishes."""


ANSWER_S = 3


def answer(rule, values):
    """Returns what a peer says of a series; nothing, and says so on stderr, where it does not answer in time."""

    def give_up(number, frame):
        raise NoAnswer

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(ANSWER_S)
    try:
        return rule(values)
    except NoAnswer:
        print(f"no answer in {ANSWER_S} s", file=sys.stderr)
        return []
    finally:
        signal.alarm(0)


def alarms(rule, series, begin):
    """Returns the nights in which an alarm was raised: each change once, in the first night in which it is seen."""
    raised, known = [], []
    for night in range(begin, len(series)):
        seen = series[: night + 1]
        there = np.flatnonzero(~np.isnan(seen))
        if not len(there) or there[-1] != night:
            continue
        for point in answer(rule, seen[there]):
            place = there[min(point, len(there) - 1)]
            if place >= begin - 2 and all(abs(place - one) > 3 for one in known):
                known.append(place)
                raised.append(night)
    return raised


def main():
    """Reads the series, writes for each the nights with an alarm as JSON."""
    rule, begin = {"otava": otava, "asv": asv}[sys.argv[1]], int(sys.argv[2])
    values = np.load(io.BytesIO(sys.stdin.buffer.read()))
    print(json.dumps([[int(night) for night in alarms(rule, one, begin)] for one in values]))


if __name__ == "__main__":
    main()
