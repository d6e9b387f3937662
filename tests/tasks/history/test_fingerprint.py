"""What makes two runs comparable: the machine, and the variables that were given; secrets never."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.history.dataset.rows import machine_id, series_id
from tasks.history.fingerprint import ENVIRONMENT, canonical, difference, fingerprint

SECRET = "(redacted)"


def of(*environments: dict[str, str], given: Any = ("A", "B", "TOKEN")) -> dict[str, str]:
    """Returns the fingerprint of workers with these variables."""
    names = list(given) if isinstance(given, tuple) else given
    manifests = [{"environment": each, "environment_given": names} for each in environments]
    return fingerprint(manifests, workers=len(environments), slices=1, output="/runs/run-1")


@pytest.mark.parametrize(
    ("environments", "told"),
    [
        ([{"A": "1", "XLA_FLAGS": "--x"}], "A=1"),
        ([{"B": "2", "A": "1"}] * 2, "A=1 B=2"),
        ([{"A": "1"}, {"A": "2"}], "A=1 + A=2"),
        ([{"A": "1", "TOKEN": SECRET}], "A=1"),
        ([{"A": f"https://{SECRET}@host", "B": ""}], "B="),
        ([{"TOKEN": SECRET}], None),
        ([{"XLA_FLAGS": "--x"}], None),
        ([{}], None),
    ],
)
def test_the_variables_that_were_given_are_a_part(
    environments: list[dict[str, str]], told: str | None
) -> None:
    assert of(*environments).get(ENVIRONMENT) == told


@pytest.mark.parametrize("given", [None, "A", [{}], [1]])
def test_a_manifest_that_is_damaged_tells_of_none(given: Any) -> None:
    assert ENVIRONMENT not in of({"A": "1"}, given=given)


def test_another_value_is_another_series_and_the_same_machine() -> None:
    plain, one, other = of({}), of({"A": "1"}), of({"A": "2"})
    ids = {series_id("key", "save", "time_s", each, "released") for each in (plain, one, other)}
    assert len(ids) == 3
    assert len({machine_id(each) for each in (plain, one, other)}) == 1
    assert difference(one, other) == "variables given A=2 instead of A=1"
    assert difference(one, plain) == "variables given none instead of A=1"
    assert difference(one, of({"A": "1"})) is None


def test_what_stood_beside_the_workers_is_a_part() -> None:
    def beside(*series: str) -> dict[str, str]:
        manifests = [{"sidecar": {"name": "encryption", "series": each}} for each in series]
        return fingerprint(manifests or [{}], workers=2, slices=1, output="gs://b/runs")

    plain, sealed = beside(), beside("encrypted by Cloud KMS", "encrypted by Cloud KMS")
    assert difference(sealed, plain) == "sidecar none instead of encrypted by Cloud KMS"
    assert len({series_id("key", "save", "time_s", each, "released") for each in (plain, sealed)}) == 2
    assert machine_id(plain) == machine_id(sealed)
    assert canonical(plain) == canonical(beside()) and "sidecar" not in plain


def test_series_from_before_variables_counted_go_on() -> None:
    machine = {"platform": "cpu", "workers": "2"}
    assert series_id("key", "save", "time_s", machine, "released") == "save-6a84179206"
    assert machine_id(machine) == "23912f7d2775"
    assert ENVIRONMENT not in canonical(machine)


@pytest.mark.parametrize(
    ("machine", "bucket", "told"),
    [
        ({"region": "us-west4"}, "STANDARD us-east5", "region us-west4 instead of us-east5"),
        ({"type": "v5p-8"}, "STANDARD us-east5", "type v5p-8 instead of v6e-16"),
        ({"topology": "2x8"}, "STANDARD us-east5", "topology 2x8 instead of 4x4"),
        ({"target": "tpu_vm"}, "STANDARD us-east5", "target tpu_vm instead of gke"),
        ({}, "NEARLINE us-east5", "storage gs NEARLINE us-east5 instead of gs STANDARD us-east5"),
        ({}, None, "storage gs instead of gs STANDARD us-east5"),
    ],
)
def test_rented_machines_and_buckets_are_compared_with_their_like(
    machine: dict[str, str], bucket: str | None, told: str
) -> None:
    one = rented({}, "STANDARD us-east5")
    assert difference(one, rented(machine, bucket)) == told
    assert difference(one, rented({}, "STANDARD us-east5")) is None


def test_who_rents_nothing_is_of_no_type() -> None:
    here = fingerprint([], workers=1, slices=1, output="/runs/run-1", machine={"topology": ""})
    assert not {"target", "type", "topology", "region"} & set(canonical(here))


def rented(machine: dict[str, str], bucket: str | None) -> dict[str, str]:
    """Returns the fingerprint of slices of a cluster, but for what differs."""
    usual = {"target": "gke", "type": "v6e-16", "topology": "4x4", "region": "us-east5"}
    return fingerprint([], workers=4, slices=1, output="gs://b", machine={**usual, **machine}, bucket=bucket)
