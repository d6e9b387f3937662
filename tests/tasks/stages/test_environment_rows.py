"""Every row of the guide's table changes a request: what `up` and `down` ask of Google, as the stand-in saw it.

That each row parses and what it is called here is in tests/tasks/config/test_environment.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config import queueing
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.leases.opening import open_ledger
from tasks.stages.environment import bootstrap, down, up
from tasks.stages.environment_inside import inside_of
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.releases import NEWEST, Releases
from tests.cloud.project.leasing import desk, environment

OTHER: dict[str, Any] = {
    "region": "us-central1",
    "zone": "us-central1-a",
    "record": "gs://other-records/elsewhere",
    "network": {
        "name": "other-net",
        "subnet": "other-sub",
        "subnet_range": "10.7.0.0/20",
        "pods_range": "10.8.0.0/16",
        "services_range": "10.9.0.0/20",
    },
    "cluster": {
        "name": "other",
        "version": "1.32",
        "description": "ours alone",
        "logging": False,
        "monitoring": False,
    },
    "cpu_pool": {"nodes": 5, "machine_type": "n2-standard-8", "disk_type": "pd-ssd", "disk_gb": 321},
    "accounts": {
        "workloads": {"name": "other-tpu", "roles": ["aiplatform.user"]},
        "nodes": {"name": "other-gke", "roles": ["browser"]},
    },
    "namespace": "other-space",
    "tpu": {
        "machine_type": "ct5p-hightpu-4t",
        "topology": "2x2x4",
        "hosts": 4,
        "autoscaling": True,
        "pool_prefix": "slice",
        "multislice_group": "other-group",
    },
    "tpu_pools": 2,
    "bucket": {"name": "other-bucket", "force_destroy": True},
    "tensorboard": {"name": "other-board"},
}

ROWS: dict[str, tuple[str, str]] = {
    "region": ("InsertSubnetwork", "regions/us-central1/"),
    "zone": ("CreateNodePool", '"us-central1-a"'),
    "network_name": ("InsertNetwork", '"name": "other-net"'),
    "subnet_name": ("InsertSubnetwork", '"name": "other-sub"'),
    "cluster_name": ("CreateCluster", '"name": "other"'),
    "artifact_repository_bucket_name": ("CreateBucket", '"name": "other-bucket"'),
    "subnet_ip_range": ("InsertSubnetwork", '"ipCidrRange": "10.7.0.0/20"'),
    "pods_ip_range": ("InsertSubnetwork", '"ipCidrRange": "10.8.0.0/16"'),
    "services_ip_range": ("InsertSubnetwork", '"ipCidrRange": "10.9.0.0/20"'),
    "gke_version": ("CreateCluster", '"initial_cluster_version": "1.32"'),
    "cluster_description": ("CreateCluster", '"description": "ours alone"'),
    "cpu_pool_node_count": ("CreateCluster", '"total_min_node_count": 5'),
    "cpu_pool_machine_type": ("CreateCluster", '"machine_type": "n2-standard-8"'),
    "cpu_pool_disk_type": ("CreateCluster", '"disk_type": "pd-ssd"'),
    "cpu_pool_disk_size": ("CreateCluster", '"disk_size_gb": 321'),
    "tpu_sa_name": ("CreateServiceAccount", '"accountId": "other-tpu"'),
    "tpu_sa_roles": ("SetProjectPolicy", '"serviceAccount:other-tpu@proj.iam.gserviceaccount.com"'),
    "gke_sa_name": ("CreateServiceAccount", '"accountId": "other-gke"'),
    "gke_sa_roles": ("SetProjectPolicy", '"roles/browser"'),
    "tpu_namespace": ("SetAccountPolicy", "proj.svc.id.goog[other-space/"),
    "tpu_machine_type": ("CreateNodePool", '"machine_type": "ct5p-hightpu-4t"'),
    "tpu_topology": ("CreateNodePool", '"tpu_topology": "2x2x4"'),
    "tpu_num_nodes": ("CreateNodePool", '"max_node_count": 4'),
    "num_tpu_pools": ("CreateNodePool", '-1"'),
    "enable_tpu_autoscaling": ("CreateNodePool", '"autoscaling"'),
    "tpu_node_pool_name_prefix": ("CreateNodePool", '"name": "slice-0"'),
    "multislice_group_name": ("CreateNodePool", '"multislice-group": "other-group"'),
    "force_destroy": ("DeleteObject", "b/other-bucket/o/"),
    "TF_STATE_BUCKET": ("CreateBucket", '"name": "other-records"'),
    "TF_STATE_PREFIX": ("GetObject", "b/other-records/o/elsewhere%2F"),
    "Cloud Logging": ("CreateCluster", '"logging_config": {"component_config": {}}'),
    "Cloud Monitoring": ("CreateCluster", '"monitoring_config": {"component_config": {}}'),
    "TensorBoard": ("CreateTensorboard", '"displayName": "other-board"'),
}


def made_and_given_back(project: Gke, config: EnvironmentConfig) -> list[tuple[str, str]]:
    """Returns all that is asked to make an environment with its record in its bucket, and to give it back whole."""
    project.forget()
    bootstrap(desk(), config)
    ledger = open_ledger(config.record)
    up(desk(ledger=ledger), config)
    with project.store.changing() as state:
        one = {"name": "run/x", "generation": "5", "content": ""}
        state["project"]["objects"][f"{config.bucket.name}/run/x"] = one
    if config.bucket.force_destroy:
        down(desk(ledger=ledger), config, bucket=True)
    else:
        with pytest.raises(BadInput, match="is not empty, so nothing was given back"):
            down(desk(ledger=ledger), config, bucket=True)
    return [
        (one["method"], json.dumps(one["request"])) for one in project.requests() if one["outcome"] == "OK"
    ]


@pytest.mark.system
def test_each_row_changes_a_request(project: Gke) -> None:
    usual = made_and_given_back(project, environment())
    other = made_and_given_back(project, environment(**OTHER))

    def asked(seen: list[tuple[str, str]], method: str, words: str) -> bool:
        return any(name == method and words in request for name, request in seen)

    for row, (method, words) in ROWS.items():
        assert asked(other, method, words), (row, [one for one in other if one[0] == method])
        assert not asked(usual, method, words), row


def test_versions_are_those_that_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path))
    chosen = {"jobset": "v0.11.1", "kueue": "v0.18.0"}
    with Releases.served() as releases:
        place = "/{}/releases/download/{}/manifests.yaml"
        monkeypatch.setattr(queueing, "_RELEASE", f"{releases.address}{place}")
        said = {"queueing": {name: {"version": version} for name, version in chosen.items()}}
        for config, versions in ((environment(), NEWEST), (environment(**said), chosen)):
            for name, version in versions.items():
                releases.put(name, version)
            releases.asked.clear()
            inside_of(config, "proj", lambda line: None).ready(cluster_of(config))
            assert releases.asked == [place.format(*one) for one in versions.items()]
