"""Accelerator types of GKE: every row that we claim, the single hosts besides, and what is said of a wrong name."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.accelerators import accelerator, known_names

CASES = Path(__file__).parents[2] / "cases" / "accelerators"


def tpu_rows() -> Iterator[dict[str, str]]:
    """Yields the rows of the table: name, topology, hosts, and what its block says of the machine."""
    block: dict[str, str] = {}
    for line in (CASES / "tpu_types.txt").read_text().splitlines():
        if line.startswith("machine="):
            block = dict(word.split("=") for word in line.split())
        elif not line.startswith("#"):
            for word in line.split():
                whole, hosts = word.split("*")
                name, _, topology = whole.partition("=")
                yield {**block, "name": name, "topology": topology or name.split("-")[1], "hosts": hosts}


def test_every_tpu_row_is_what_the_table_says() -> None:
    rows = list(tpu_rows())
    assert len(rows) == 2020
    for row in rows:
        shape = accelerator(row["name"])
        policy = shape.placement == "workload_policy"
        assert (
            shape.kind, shape.machine_type, shape.label, shape.topology, str(shape.hosts), str(shape.chips_per_host),
            "yes" if policy else "no", shape.pathways,
        ) == (
            "tpu", row["machine"], row["label"], row["topology"], row["hosts"], row["chips_per_host"],
            row["workload_policy"], row["pathways"],
        ), row  # fmt: skip
        if shape.hosts == 1:
            assert shape.placement == "none"


def test_every_gpu_and_cpu_row_is_what_the_table_says() -> None:
    with (CASES / "gpu_cpu_types.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 37
    for row in rows:
        shape = accelerator(row["name"])
        assert {
            "kind": shape.kind,
            "name": shape.name,
            "machine_type": shape.machine_type,
            "topology": shape.topology,
            "chips_per_host": str(shape.chips_per_host),
            "hosts": str(shape.hosts),
            "label": shape.label,
        } == row


@pytest.mark.parametrize(
    ("name", "machine", "topology", "chips"),
    [
        ("v5litepod-1", "ct5lp-hightpu-1t", "1x1", 1),
        ("v5litepod-4", "ct5lp-hightpu-4t", "2x2", 4),
        ("ct5lp-hightpu-1t", "ct5lp-hightpu-1t", "1x1", 1),
        ("ct5lp-hightpu-4t", "ct5lp-hightpu-4t", "2x2", 4),
        ("ct5lp-hightpu-8t", "ct5lp-hightpu-8t", "2x4", 8),
        ("ct6e-standard-1t", "ct6e-standard-1t", "1x1", 1),
        ("ct6e-standard-8t", "ct6e-standard-8t", "2x4", 8),
        ("ct4p-hightpu-4t", "ct4p-hightpu-4t", "2x2x1", 4),
        ("tpu7x-standard-1t", "tpu7x-standard-1t", "1x1x1", 1),
    ],
)
def test_slices_of_one_host(name: str, machine: str, topology: str, chips: int) -> None:
    shape = accelerator(name)
    assert (shape.machine_type, shape.topology, shape.chips_per_host, shape.hosts) == (
        machine,
        topology,
        chips,
        1,
    )
    assert shape.placement == "none"


def test_a_topology_chooses_among_shapes_of_one_size() -> None:
    assert accelerator("v4-512").topology == "4x8x8"
    assert accelerator("v4-512", "4x4x16").topology == "4x4x16"
    assert accelerator("ct4p-hightpu-4t", "2x2x2").hosts == 2
    assert accelerator("v5litepod-16", "4x4").topology == "4x4"


@pytest.mark.parametrize(
    ("name", "topology", "nodes", "words"),
    [
        ("v5litepod-16", "4x8", None, "topology 4x8 does not fit v5litepod-16, which is 16 chips, write 4x4"),
        ("v4-512", "4x4x8", None, "which is 256 chips, write .*4x4x16.* or "),
        ("v5p-4x4x4", "4x4x8", None, "v5p-4x4x4 is 4x4x4"),
        ("ct5lp-hightpu-8t", "4x4", None, "write 2x4"),
        ("h100-80gb-8", "2x4", None, "has no topology"),
        ("v5litepod-16", None, 4, "nodes: 4 does not go with v5litepod-16, which is 4 hosts"),
        ("n2-standard-4-2", None, 4, "nodes: 4 does not go with"),
        ("n2-standard-4-9999", None, None, "from 1 to 2048"),
    ],
)
def test_what_does_not_go_together_is_refused(
    name: str, topology: str | None, nodes: int | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        accelerator(name, topology, nodes)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v5e-8", r"did you mean v5litepod-8\?"),
        ("v5e-9", r"did you mean v5litepod-4, v5litepod-8 or v5litepod-16\? \(v5e counts chips\)"),
        ("v5p-12", r"v5p-8.*TensorCores, two a chip"),
        ("v5e-4x4", "did you mean v5litepod-4x4"),
        ("v5p-8x4x4", "did you mean v5p-4x4x8"),
        ("V6E-16", "did you mean .*v6e-16"),
        ("h100-80gb", "did you mean h100-80gb-8"),
        ("h100-mega-80g-8", "did you mean h100-mega-80gb-8"),
        ("n2-standard-31-1", "did you mean n2-standard-3?2-1"),
        ("ct5lp-hightpu-2t", "did you mean ct5lp-hightpu-"),
        ("toaster", "types are v4-N, v5litepod-N"),
        ("", "types are"),
        ("v5p-0", "did you mean v5p-8"),
    ],
)
def test_a_typo_is_told_with_what_was_meant(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        accelerator(name)


def test_every_known_name_is_one() -> None:
    names = list(known_names())
    assert len(names) == len(set(names)) > 400
    for name in names:
        assert accelerator(name).chips >= 1


def test_selectors_and_tolerations() -> None:
    assert accelerator("v6e-16").node_selector == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    }
    assert accelerator("l4-2").node_selector == {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert accelerator("n2-standard-32-2").node_selector == {
        "node.kubernetes.io/instance-type": "n2-standard-32"
    }
    assert accelerator("cpu", nodes=3).node_selector == accelerator("gpu-4").node_selector == {}
    assert accelerator("v6e-16").tolerations == [{"key": "google.com/tpu", "operator": "Exists"}]
    assert [each["key"] for each in accelerator("gb200-4").tolerations] == [
        "nvidia.com/gpu",
        "user-workload",
        "kubernetes.io/arch",
    ]
    assert accelerator("cpu", nodes=3).tolerations == []
    assert (accelerator("cpu", nodes=3).hosts, accelerator("h100-80gb-8", nodes=4).chips) == (3, 32)


def test_types_are_told_in_words() -> None:
    assert str(accelerator("v6e-1")) == "v6e-1 (1 chip on 1 host of ct6e-standard-1t)"
    assert str(accelerator("l4-8", nodes=2)) == "l4-8 (16 GPUs on 2 hosts of g2-standard-96)"
    assert str(accelerator("cpu", nodes=2)) == "2 hosts of any kind"


def test_capacity_kinds() -> None:
    assert "flex_start" not in accelerator("v4-8").capacities
    assert "flex_start" in accelerator("v6e-16").capacities
    assert "flex_start" not in accelerator("n2-standard-32-2").capacities
