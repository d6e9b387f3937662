"""Cloud TPU's shapes and what they cost, against numbers from its documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.prices import PRICES_VARIABLE, load_prices
from tasks.cloud.tpu_types import known_types, tpu_type


@pytest.mark.parametrize(
    ("name", "chips", "hosts", "cores", "devices_per_host", "version"),
    [
        ("v2-8", 4, 1, 8, 8, "tpu-ubuntu2204-base"),
        ("v2-32", 16, 4, 32, 8, "tpu-ubuntu2204-base"),
        ("v3-8", 4, 1, 8, 8, "tpu-ubuntu2204-base"),
        ("v4-8", 4, 1, 8, 4, "tpu-ubuntu2204-base"),
        ("v4-32", 16, 4, 32, 4, "tpu-ubuntu2204-base"),
        ("v5litepod-1", 1, 1, 1, 1, "v2-alpha-tpuv5-lite"),
        ("v5litepod-4", 4, 1, 4, 4, "v2-alpha-tpuv5-lite"),
        ("v5litepod-8", 8, 1, 8, 8, "v2-alpha-tpuv5-lite"),
        ("v5litepod-16", 16, 4, 16, 4, "v2-alpha-tpuv5-lite"),
        ("v5litepod-256", 256, 64, 256, 4, "v2-alpha-tpuv5-lite"),
        ("v5p-8", 4, 1, 8, 4, "v2-alpha-tpuv5"),
        ("v5p-128", 64, 16, 128, 4, "v2-alpha-tpuv5"),
        ("v6e-1", 1, 1, 1, 1, "v2-alpha-tpuv6e"),
        ("v6e-8", 8, 1, 8, 8, "v2-alpha-tpuv6e"),
        ("v6e-16", 16, 4, 16, 4, "v2-alpha-tpuv6e"),
    ],
)
def test_shape(name: str, chips: int, hosts: int, cores: int, devices_per_host: int, version: str) -> None:
    shape = tpu_type(name)
    assert (shape.chips, shape.hosts, shape.cores) == (chips, hosts, cores)
    assert (shape.devices_per_host, shape.runtime_version) == (devices_per_host, version)
    assert shape.chips_per_host * shape.hosts == shape.chips


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("v5e-16", "v5litepod-16"),
        ("v6e-12", "v6e-8"),
        ("v4-4", "v4 counts TensorCores"),
        ("V6E-16", "v6e-16"),
        ("tpu-v6", "types are v2-N"),
    ],
)
def test_an_unknown_type_names_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(BadInput, match=meant):
        tpu_type(written)


def test_every_type_divides_evenly_over_its_hosts() -> None:
    for shape in known_types().values():
        assert shape.chips == shape.hosts * shape.chips_per_host, shape
        assert shape.chips_per_host in (1, 4, 8)


def test_prices_are_per_chip_region_and_tier() -> None:
    prices = load_prices()
    assert prices.per_hour("v6e", 32, "us-east5-b", spot=False) == 86.4
    assert prices.per_hour("v6e", 32, "us-east5-b", spot=True) == 38.88
    assert prices.per_hour("v2", 4, "us-central1-f", spot=False) == 4.5
    assert prices.per_hour("v3", 4, "europe-west4-a", spot=True) == 2.04
    assert prices.per_hour("v6e", 32, "us-mars1-a", spot=True) is None
    assert prices.as_of.startswith("20")


def test_the_table_can_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text("as_of: 2030-01\nsource: us\nper_chip_hour: {v6e: {us-east5: [10, 1]}}\n")
    monkeypatch.setenv(PRICES_VARIABLE, str(table))
    assert load_prices().per_hour("v6e", 2, "us-east5-a", spot=False) == 20.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("source: us\nper_chip_hour: {}\n", ":1:1: as_of is missing, write as_of: …"),
        (
            "as_of: 2030-01\nsource: us\nper_chip_hour: [1]\n",
            ":3:1: per_chip_hour must be a mapping of names",
        ),
        ("as_of: 2030-01\nsource: us\nper_chip_hour: {v6e: [1]}\n", ":3:17: v6e must be a mapping"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [1, abc]}}\n", ":3:23: x: two prices belong here"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [1]}}\n", ":3:23: x: two prices belong here"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [1, 2, 3]}}\n", ":3:23: x: two prices belong here"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [true, 1]}}\n", ":3:23: x: two prices belong here"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [-1, 1]}}\n", ":3:23: x: a price is no less than 0"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [1, .nan]}}\n", "no more than can be paid, not nan"),
        ("as_of: a\nsource: us\nper_chip_hour: {v6e: {x: [1, .inf]}}\n", "no more than can be paid, not inf"),
        ("as_of: a\nsorce: us\nper_chip_hour: {}\n", ":2:1: unknown key 'sorce', did you mean 'source'?"),
        ("- 1\n", "the table of prices must be a mapping of names to values"),
        (None, ": there is no such file, check the path; write it like "),
    ],
)
def test_what_is_wrong_with_a_table_is_told_at_its_place_with_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, told: str
) -> None:
    table = tmp_path / "wrong.yaml"
    if text is not None:
        table.write_text(text)
    monkeypatch.setenv(PRICES_VARIABLE, str(table))
    with pytest.raises(BadInput) as refusal:
        load_prices()
    assert f"{table}" in str(refusal.value) and told in str(refusal.value)
    assert str(refusal.value).endswith(f"prices.yaml, or unset {PRICES_VARIABLE}")
