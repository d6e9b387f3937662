"""One alert for each thing that is wrong: opened once, closed once, whatever is played again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.history.alerts import Event, Wrong, open_alerts, to_tell

SLOW = Wrong("series/s1", "regressed", "save", "+10 %", "2026-11-29", 0.1)
RED = Wrong("cell/c", "not_run", "c", "no room", "2026-11-30")


def _tell(
    events: list[Event], wrong: list[Wrong], right: dict[str, str], night: str = "2026-11-29"
) -> list[Event]:
    return to_tell(events, wrong, right, "n", night, 1000.0, "/report.html")


def test_what_is_wrong_is_told_once_and_its_end_once() -> None:
    opened = _tell([], [SLOW], {})
    assert [(one.kind, one.what, one.change, one.since) for one in opened] == [
        ("opened", "regressed", 0.1, "2026-11-29")
    ]
    assert _tell(opened, [SLOW], {}, "2026-11-30") == []
    closed = _tell(opened, [], {"series/s1": "back at its level"}, "2026-12-01")
    assert [(one.kind, one.text) for one in closed] == [("closed", "back at its level")]
    assert _tell(opened + closed, [], {"series/s1": "back at its level"}, "2026-12-02") == []
    again = _tell(opened + closed, [SLOW], {}, "2026-12-03")
    assert [one.number for one in again] == [3]


def test_what_nobody_knows_of_tonight_stays_open() -> None:
    opened = _tell([], [SLOW, RED], {})
    assert _tell(opened, [], {}) == []
    assert open_alerts(opened).keys() == {"series/s1", "cell/c"}


def test_the_same_night_again_gives_the_same_ids() -> None:
    assert [one.id for one in _tell([], [SLOW, RED], {})] == [one.id for one in _tell([], [RED, SLOW], {})][
        ::-1
    ]
    assert (
        len(
            {
                one.id
                for one in (*_tell([], [SLOW, RED], {}), *_tell(_tell([], [SLOW], {}), [], {"series/s1": ""}))
            }
        )
        == 3
    )


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_alerts_open_and_close_by_turns_whatever_happens(nights: list[tuple[bool, bool]]) -> None:
    events: list[Event] = []
    for n, (wrong, known) in enumerate(nights):
        right = {SLOW.key: "back"} if known and not wrong else {}
        events += _tell(events, [SLOW] if wrong else [], right, f"2026-12-{n + 1:02d}")
        assert [one.kind for one in events] == ["opened", "closed"] * (len(events) // 2) + ["opened"] * (
            len(events) % 2
        )
        if wrong:
            assert SLOW.key in open_alerts(events)
        elif known:
            assert SLOW.key not in open_alerts(events)


def test_a_message_for_programs_and_a_sentence_for_people() -> None:
    (event,) = _tell([], [SLOW], {})
    message = event.message()
    assert (message["kind"], message["state"], message["id"]) == ("slicebench.alert", "opened", event.id)
    assert event.sentence() == "n 2026-11-29: REGRESSED: save: +10 % /report.html"
