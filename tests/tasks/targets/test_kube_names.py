"""Names on Kubernetes: the limits that a real JobSet controller has, and what is said of a name beyond them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.targets.kube_names import (
    Group,
    is_dns_label,
    is_dns_subdomain,
    is_env_name,
    is_label_key,
    is_label_value,
    jobset_name,
    longest_name,
    name_problem,
)

# From trying it: the longest name that JobSet 0.11 took.
TRIED = [
    (Group("slice-job", 1, 1), 43),
    (Group("slice-job", 10, 10), 43),
    (Group("slice-job", 11, 1), 42),
    (Group("slice-job", 2, 11), 42),
    (Group("slice-job", 2, 100), 42),
    (Group("slice-job", 2, 101), 41),
    (Group("slice-job", 0, 1), 42),
    (Group("s", 1, 1), 51),
    (Group("slice", 2, 4), 47),
    (Group("slice", 64, 256), 44),
    (Group("pathways-head", 1, 1), 39),
    (Group("pwhd", 1, 1), 48),
]


@pytest.mark.parametrize(("group", "longest"), TRIED)
def test_the_limits_are_those_that_were_tried(group: Group, longest: int) -> None:
    assert longest_name([group]) == longest
    assert name_problem("a" * longest, [group]) is None
    problem = name_problem("a" * (longest + 1), [group])
    assert problem is not None and f"at most {longest} are allowed" in problem.what


@pytest.mark.parametrize(
    ("group", "longest"),
    [
        (Group("slice", 2, 4), 26),
        (Group("slice-job", 2, 4), 24),
        (Group("w", 2, 4), 28),
        (Group("pathways-head", 1, 1), 22),
    ],
)
def test_a_coordinator_has_the_name_twice(group: Group, longest: int) -> None:
    assert longest_name([group], coordinator=group) == longest


@pytest.mark.parametrize("name", ["1abc", "a.b", "A", "a_b", "a-", "", "-a", "ä"])
def test_what_the_webhook_or_the_server_refuses_is_refused_before(name: str) -> None:
    problem = name_problem(name, [Group("slice-job", 1, 1)])
    assert problem is not None
    suggested = re.search(r"'(.+)'", problem.fix)
    assert suggested and name_problem(suggested[1], [Group("slice-job", 1, 1)]) is None


@given(
    lease_id=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,90}[a-z0-9])?", fullmatch=True),
    jobs=st.integers(1, 1000),
    pods=st.integers(1, 3000),
)
def test_made_names_fit(lease_id: str, jobs: int, pods: int) -> None:
    groups = [Group("slice-job", jobs, pods)]
    name = jobset_name(lease_id, groups)
    assert name_problem(name, groups) is None
    assert name == jobset_name(lease_id, groups)
    assert len(f"{name}-slice-job-{jobs - 1}-{pods - 1}-abcde") <= 63


def test_made_names_differ_where_leases_do() -> None:
    groups = [Group("slice-job", 2, 4)]
    long = "nightly-of-everything-that-we-have-20261129-010203-ab12"
    assert jobset_name(f"{long}-e1", groups) != jobset_name(f"{long}-e2", groups)


def test_names_of_other_things() -> None:
    assert (
        is_dns_label("a1-b") and is_dns_label("1a") and not is_dns_label("a.b") and not is_dns_label("a" * 64)
    )
    assert is_dns_subdomain("a.b-c") and not is_dns_subdomain("a..b") and not is_dns_subdomain("A")
    assert (
        is_label_value("")
        and is_label_value("A.b_c")
        and not is_label_value("a b")
        and not is_label_value("a-")
    )
    assert is_label_key("cloud.google.com/gke-nodepool") and is_label_key("a_b")
    assert not is_label_key("/a") and not is_label_key("a b/c") and not is_label_key("a" * 64)
    assert (
        is_env_name("A_b.c-d") and not is_env_name("1A") and not is_env_name("..a") and not is_env_name("a b")
    )
