"""A command that a message names can be typed as it stands: it leads to where the one that was typed has looked."""

from __future__ import annotations

import shlex

import pytest

from flows.aim import aimed


@pytest.mark.parametrize(
    ("typed", "text", "told"),
    [
        ("workload create w --context c -- x", "slicebench workload delete w", "{} --context c"),
        ("workload list --context=c", "a name, see slicebench workload list", "{} --context c"),
        (
            "workload explain w --cluster k --zone z --project p",
            "there is none: see slicebench cluster list",
            "{} --project p",
        ),
        ("workload list --cluster k --zone z", "slicebench workload logs w --follow", "{} --cluster k --location z"),
        ("workload list --context c", "slicebench workload list   # a", "slicebench workload list --context c   # a"),
        ("workload list --context c", "`slicebench workload list`, or", "`slicebench workload list --context c`, or"),
        ("workload list --context c", "slicebench workload list --context d", "{}"),
        ("workload create --context c", "see slicebench workload create --help", "{}"),
        ("cluster create m --project p", "back: slicebench cluster delete m", "{} --project p"),
        ("tpu list --project p", "see slicebench tpu list.", "see slicebench tpu list --project p."),
        ("env up e.yaml --set a=1 --set b=2", "slicebench env down e.yaml", "{} --set a=1 --set b=2"),
        ("workload create -- x --context c", "slicebench workload list", "{}"),
        ("workload list --context", "slicebench workload list", "{}"),
        ("leases --json", "slicebench workload list", "{}"),
        ("workload list --context 'a b'", "slicebench workload list", "{} --context 'a b'"),
    ],
)  # fmt: skip
def test_a_command_is_told_with_the_flags_it_needs(typed: str, text: str, told: str) -> None:
    assert aimed(text, shlex.split(typed)) == told.format(text)
