"""Names on Kubernetes: how long a JobSet's may be, what is made of a lease, and what is wrong with one before submit.

Sources: JobSet 0.11 and 0.12, tried against a real API server; Kubernetes' rules for names and labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.contract.errors import Problem
from tasks.cloud.resource_names import name_of

LONGEST_LABEL = 63
"""Characters of a label's value, of a host's name, and of a Service's name."""

_SUFFIX = "-abcde"
"""What Kubernetes adds to the name of each pod."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_QUALIFIED = re.compile(r"(?:(?P<prefix>[^/]*)/)?(?P<name>[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_ENV = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Group:
    """A replicated job, as far as names go: `jobs` of it, with `pods` each."""

    name: str
    jobs: int
    pods: int


def longest_name(groups: Sequence[Group], *, coordinator: Group | None = None) -> int:
    """Returns how long the name of a JobSet with such replicated jobs may be.

    Its pods are called NAME-GROUP-JOB-POD-abcde, and each must be the name of a host. `coordinator` is the group of the
    coordinator, where the JobSet has one: its address is a label's value, and has the JobSet's name twice.
    """
    limits = [
        LONGEST_LABEL - len(f"-{group.name}-{group.jobs - 1}-{max(group.pods - 1, 0)}{_SUFFIX}")
        for group in groups
    ]
    if coordinator is not None:
        limits.append((LONGEST_LABEL - len(f"-{coordinator.name}-0-0.")) // 2)
    return min(limits)


def jobset_name(lease_id: str, groups: Sequence[Group], part: str = "") -> str:
    """Returns the name of the JobSet that a lease makes, the same each time: as long as it may be, with a hash then."""
    return name_of(lease_id, part, longest_name(groups))


def name_problem(name: str, groups: Sequence[Group]) -> Problem | None:
    """Returns what is wrong with a JobSet's name, or None. JobSet names its Service so, too."""
    longest = longest_name(groups)
    if len(name) > longest:
        group = max(groups, key=lambda each: len(f"{each.name}{each.jobs - 1}{each.pods - 1}"))
        what = f"the name {name!r} has {len(name)} characters, and at most {longest} are allowed"
        why = f"its pods are called {name}-{group.name}-{group.jobs - 1}-{max(group.pods - 1, 0)}{_SUFFIX}"
        return Problem("error", None, what, f"{why}, in 63 characters", "choose a shorter one")
    if not _DNS_1035.fullmatch(name):
        legal = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").lstrip("-0123456789")[:longest]
        what = f"{name!r} cannot be the name of a JobSet"
        fix = f"for example {legal.rstrip('-') or 'my-workload'!r}"
        return Problem("error", None, what, "a letter, then a-z, 0-9 and -, no - at the end", fix)
    return None


def is_dns_label(name: str) -> bool:
    """Whether it can be the name of a namespace or container."""
    return len(name) <= LONGEST_LABEL and _DNS_1123.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether it can be the name of most objects: a Secret, a service account, a priority class."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None and ".." not in name


def is_label_value(value: str) -> bool:
    """Whether a label may have this value; it may be empty."""
    return len(value) <= LONGEST_LABEL and _LABEL_VALUE.fullmatch(value) is not None


def is_label_key(key: str) -> bool:
    """Whether a label, annotation or taint may be called so: NAME, or DOMAIN/NAME."""
    match = _QUALIFIED.fullmatch(key)
    return match is not None and (match["prefix"] is None or is_dns_subdomain(match["prefix"]))


def is_env_name(name: str) -> bool:
    """Whether a variable of a container, and a key of a Secret, may be called so by any Kubernetes of today."""
    return _ENV.fullmatch(name) is not None and name not in (".", "..") and not name.startswith("..")
