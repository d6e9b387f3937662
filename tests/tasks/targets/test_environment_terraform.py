"""The exported configuration fits the provider's resources, and says field by field what `env up` asks for."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_file import load_environment
from tasks.targets.environment_diff import leaves
from tasks.targets.environment_terraform import BLOCKS, export, label
from tasks.targets.environment_wanted import FOR_SOME, wanted
from tests.cloud.project.leasing import environment

ROOT = Path(__file__).parents[3]
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "tests" / "cases" / "terraform" / "resources.schema.json").read_text())
)
NETWORK = {"name": "net", "subnet": "sub"}
CASES: dict[str, EnvironmentConfig] = {
    "minimal": load_environment(ROOT / "configs/environments/minimal.yaml"),
    "team": load_environment(ROOT / "configs/environments/team.yaml"),
    "spot": environment(
        tpu={"machine_type": "ct5lp-hightpu-4t", "topology": "4x4", "capacity": "spot", "max_run": "12h"},
        cluster={"name": "mine", "version": "1.33", "maintenance": "03:00", "image_streaming": True},
    ),
    "flex": environment(
        tpu={"machine_type": "ct5lp-hightpu-4t", "topology": "4x4", "capacity": "flex_start"}, tpu_pools=3
    ),
    "reservation": environment(
        tpu={
            "machine_type": "ct5lp-hightpu-8t",
            "capacity": "reservation",
            "reservations": ["r"],
            "autoscaling": True,
        },
        tensorboard=None,
        registry=None,
    ),
    "placed": environment(tpu={"machine_type": "tpu7x-standard-4t", "topology": "2x2x2"}, tpu_pools=2),
    "shared": environment(network={**NETWORK, "existing": True, "host_project": "host"}),
    "existing": environment(network={**NETWORK, "existing": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_fits_the_resources_that_it_uses(case: str) -> None:
    SCHEMA.validate(export(CASES[case], "proj").document)


@pytest.mark.parametrize("case", CASES)
def test_every_field_that_is_asked_for_is_there_with_its_value(case: str) -> None:
    config = CASES[case]
    document = export(config, "proj")
    resources = document.document["resource"]
    for one in wanted(config, "proj"):
        if one.existing or one.kind in ("namespace", "kubernetes account", "queue"):
            assert any(told.startswith(f"{one} ") for told in document.left_out)
            continue
        body = resources[BLOCKS[one.kind].resource][label(one)]
        told = Counter(str((field(path), resolved(resources, value))) for path, value in leaves(body))
        asked = Counter(
            str((field(path), resolved(resources, value)))
            for path, value in leaves(one.fields)
            if path not in IMPLIED and not path.startswith("nats")
        )
        assert asked <= told, (str(one), asked - told)
    assert [one for one in document.left_out if "no place" in one] == []


IMPLIED = (
    "ip_allocation_policy.use_ip_aliases",
    "master_authorized_networks_config.enabled",
    "autoscaling.enabled",
    *FOR_SOME,
)
"""What the provider sends unasked, where what is beside it is there."""


RENAMED = {
    "IPProtocol": "protocol",
    "locations": "node_locations",
    "initial_cluster_version": "min_master_version",
}
"""Where the provider has a name of its own for the last part of a field's path."""


def field(path: str) -> tuple[str, list[str]]:
    """Returns what a field is called last, as the provider spells names, and at which places of lists it is."""
    *above, last = (part for part in path.split(".") if not part.isdigit())
    told = (
        "uniform_bucket_level_access"
        if above[-1:] == ["uniformBucketLevelAccess"]
        else RENAMED.get(last, last)
    )
    return re.sub("(?<!^)(?=[A-Z])", "_", told).lower(), re.findall(r"\.(\d+)", path)


def resolved(resources: Any, value: Any) -> Any:
    """Returns a value with what references in it stand for, and links as their names."""
    if not isinstance(value, str):
        return value
    found = re.search(r"\$\{(\w+)\.(\w+)\.(\w+)\}", value)
    if found is not None:
        body = resources[found[1]][found[2]]
        name = body.get("name") or body.get("account_id")
        whole = f"{name}@proj.iam.gserviceaccount.com" if found[3] == "email" else name
        value = value.replace(found[0], whole)
    return value.rpartition("/")[2] if value.startswith("projects/") else value


def test_the_way_out_of_private_nodes_is_a_resource_of_its_own() -> None:
    resources = export(CASES["team"], "proj").document["resource"]
    [nat] = resources["google_compute_router_nat"].values()
    assert nat["router"] == "${google_compute_router.tpu_network_router.name}"
    assert nat["nat_ip_allocate_option"] == "AUTO_ONLY" and "subnetwork" not in nat
    resources = export(CASES["existing"], "proj").document["resource"]
    [nat] = resources["google_compute_router_nat"].values()
    assert (nat["source_subnetwork_ip_ranges_to_nat"], nat["subnetwork"]) == (
        "LIST_OF_SUBNETWORKS",
        [
            {
                "name": "projects/proj/regions/us-east5/subnetworks/sub",
                "source_ip_ranges_to_nat": ["ALL_IP_RANGES"],
            }
        ],
    )


def test_slices_that_a_policy_places_share_one_and_others_have_none() -> None:
    resources = export(CASES["placed"], "proj").document["resource"]
    [(name, policy)] = resources["google_compute_resource_policy"].items()
    assert policy["workload_policy"] == {"type": "HIGH_THROUGHPUT", "accelerator_topology": "2x2x2"}
    told = [one.get("placement_policy") for one in resources["google_container_node_pool"].values()]
    by = f"${{google_compute_resource_policy.{name}.name}}"
    placed = {"type": "COMPACT", "tpu_topology": "2x2x2", "policy_name": by}
    assert sorted(told, key=str) == sorted([None, placed, placed], key=str)
    assert "google_compute_resource_policy" not in export(CASES["spot"], "proj").document["resource"]


def test_what_has_no_place_there_is_told() -> None:
    config = environment(cluster={"name": "mine", "fields": {"enable_k8s_beta_apis.enabled_apis": ["x"]}})
    told = export(config, "proj").left_out
    assert any(
        "enable_k8s_beta_apis.enabled_apis has no place in google_container_cluster" in one for one in told
    )


def test_no_two_resources_have_one_name() -> None:
    for config in CASES.values():
        found = [one for one in wanted(config, "proj") if one.kind in BLOCKS and not one.existing]
        labels = [(BLOCKS[one.kind].resource, label(one)) for one in found]
        assert len(labels) == len(set(labels))


def test_references_lead_to_what_is_there() -> None:
    for config in CASES.values():
        document = export(config, "proj").document
        for kind, name in re.findall(r"\$\{(\w+)\.(\w+)\.\w+\}", json.dumps(document)):
            assert name in document["resource"][kind]
        for named in re.findall(r'"(google_\w+)\.(\w+)"', json.dumps(document)):
            assert named[1] in document["resource"][named[0]]
