"""Environment files: what they take and refuse, at which place; every row of the guide's table changes a request."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.config.environment_file import load_environment
from tasks.config.environment_ranges import Sizes, ranges_of
from tasks.config.environment_roles import needs_of
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.schemas import environment_schema
from tasks.stages.environment_plan import preview
from tasks.targets.environment_wanted import Wanted, wanted
from tests.tasks.config.least_environment import LEAST, loaded

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "configs" / "environments").glob("*.yaml"))
SCHEMA = jsonschema.Draft202012Validator(environment_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_environment_is_right_and_can_be_asked_for(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text()))
    assert preview(load_environment(path), "proj", {}).wanted


def test_the_full_example_names_every_field() -> None:
    text = (ROOT / "configs" / "environments" / "team.yaml").read_text()
    for where, model in (("", EnvironmentConfig), *EnvironmentConfig.nested.items()):
        for name in model.model_fields:
            assert re.search(rf"\b{name}:( |$)", _part(text, where), re.MULTILINE), (where, name)


def _part(text: str, where: str) -> str:
    """Returns what a file says of a part, comments included: from its name to the next line that is not further in."""
    if not where:
        return text
    lines = text.splitlines()
    at = next(nth for nth, line in enumerate(lines) if re.match(rf"(  )*{where}:( *[#{{].*)?$", line))
    depth = len(lines[at]) - len(lines[at].lstrip())
    more = itertools.takewhile(lambda line: line.startswith(" " * (depth + 1)), lines[at + 1 :])
    return "\n".join((lines[at].partition(":")[2], *more))


@pytest.mark.parametrize("text", ["# max_run: 7d", "# version: "])
def test_what_is_commented_out_in_the_full_example_may_be_said(tmp_path: Path, text: str) -> None:
    whole = (ROOT / "configs" / "environments" / "team.yaml").read_text()
    assert text in whole
    said = [
        line.replace("# ", "", 1) if line.strip().startswith(text) else line for line in whole.splitlines()
    ]
    loaded(tmp_path, "\n".join(said))


def test_the_schema_is_one_and_takes_what_the_reader_takes(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(environment_schema())
    SCHEMA.validate(yaml.safe_load(LEAST))
    config = loaded(tmp_path, LEAST)
    assert (config.called, config.shape.hosts, config.sizes) == ("mine", 2, Sizes(tpu=2, cpu=4))


# The table of the guide: variable → override that takes its place, and what of the requests it is found in.
ROWS: dict[str, tuple[str, str]] = {
    "region": ("region=us-east5", "us-east5"),
    "zone": ("zone=us-east5-b", "us-east5-b"),
    "network_name": ("network.name=other-net", "other-net"),
    "subnet_name": ("network.subnet=other-sub", "other-sub"),
    "cluster_name": ("cluster.name=other-cluster", "other-cluster"),
    "artifact_repository_bucket_name": ("bucket.name=other-bucket", "other-bucket"),
    "subnet_ip_range": ("network.subnet_range=10.7.0.0/20", "10.7.0.0/20"),
    "pods_ip_range": ("network.pods_range=10.8.0.0/16", "10.8.0.0/16"),
    "services_ip_range": ("network.services_range=10.9.0.0/20", "10.9.0.0/20"),
    "gke_version": ('cluster.version="1.33"', "1.33"),
    "cluster_description": ("cluster.description=ours alone", "ours alone"),
    "cpu_pool_node_count": ("cpu_pool.nodes=17", "17"),
    "cpu_pool_machine_type": ("cpu_pool.machine_type=n2-standard-8", "n2-standard-8"),
    "cpu_pool_disk_type": ("cpu_pool.disk_type=pd-ssd", "pd-ssd"),
    "cpu_pool_disk_size": ("cpu_pool.disk_gb=321", "321"),
    "tpu_sa_name": ("accounts.workloads.name=other-tpu", "other-tpu@"),
    "tpu_sa_roles": ("accounts.workloads.roles=[aiplatform.user]", "roles/aiplatform.user"),
    "gke_sa_name": ("accounts.nodes.name=other-gke", "other-gke@"),
    "gke_sa_roles": ("accounts.nodes.roles=[roles/browser]", "roles/browser"),
    "tpu_namespace": ("namespace=elsewhere", "elsewhere"),
    "tpu_machine_type": ("tpu={machine_type: ct5p-hightpu-4t, topology: 2x2x2}", "ct5p-hightpu-4t"),
    "tpu_topology": ("tpu.topology=2x2x4", "2x2x4"),
    "tpu_num_nodes": ("tpu={topology: 2x4x4, hosts: 8}", "2x4x4"),
    "num_tpu_pools": ("tpu_pools=2", "tpu-node-pool-1"),
    "enable_tpu_autoscaling": ("tpu.autoscaling=true", "'max_node_count'"),
    "tpu_node_pool_name_prefix": ("tpu.pool_prefix=slice", "slice-0"),
    "multislice_group_name": ("tpu.multislice_group=other-group", "other-group"),
    "force_destroy": ("bucket.force_destroy=true", ""),
    "TF_STATE_BUCKET": ("record=gs://other-records/environments", ""),
    "TF_STATE_PREFIX": ("record=gs://records/elsewhere", ""),
    "JobSet, Kueue versions": ("queueing={jobset: {version: v0.11.1}, kueue: {version: v0.18.0}}", ""),
    "num_tpu_pools=0": ("tpu_pools=0", ""),
    "Cloud Logging": ("cluster.logging=false", ""),
    "Cloud Monitoring": ("cluster.monitoring=false", ""),
    "TensorBoard": ("tensorboard={name: other-board}", "other-board"),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_guides_table_parses_and_changes_what_is_asked_for(tmp_path: Path, row: str) -> None:
    override, seen = ROWS[row]
    more = {"region": ["zone=us-east5-b"], "zone": ["region=us-east5"]}.get(row, [])
    config = loaded(tmp_path, LEAST, override, *more)
    before = loaded(tmp_path, LEAST)
    asked, usual = (_asked(one) for one in (config, before))
    assert asked != usual
    assert seen in asked and (not seen or seen not in usual)


def _asked(config: EnvironmentConfig) -> str:
    """Returns what is asked for: requests, what is put into the cluster, what is kept in mind for the end."""
    installed = cluster_of(config).queueing.model_dump()
    return str((wanted(config, "proj"), installed, config.record, config.bucket.force_destroy))


@pytest.mark.parametrize("row", ROWS)
def test_docs_say_where_each_row_of_the_guides_table_went(row: str) -> None:
    page = (ROOT / "docs" / "migration.md").read_text()
    rows = [line for line in page.splitlines() if re.match(rf"\|[^|]*{re.escape(row)}", line)]
    field = re.split(r"[={]", ROWS[row][0])[0].rpartition(".")[2]
    assert rows and any(field in one.split("|", 2)[2] for one in rows), row


DEFAULTS: dict[str, Any] = {
    "ipCidrRange": "10.129.0.0/20",
    "disk_size_gb": 200,
    "disk_type": "pd-standard",
    "machine_type": "ct4p-hightpu-4t",
    "tpu_topology": "2x2x2",
    "total_min_node_count": 3,
    "secondaryIpRanges": [
        {"rangeName": "pods", "ipCidrRange": "192.168.64.0/20"},
        {"rangeName": "services", "ipCidrRange": "192.168.80.0/20"},
    ],
    "labels": {"multislice-group": "multi-slice-group"},
}


NAMES = {
    "node pool": ["cpu", "tpu-node-pool-0"],
    "namespace": ["tpu-training"],
    "service account": ["gke-sa", "cloud-tpu-sa"],
    "queue": ["multislice-queue"],
    "repository": ["ml-images"],
}


def test_what_is_not_said_is_as_the_guide_had_it(tmp_path: Path) -> None:
    config = loaded(tmp_path, LEAST)
    asked = str([one.fields for one in wanted(config, "proj")])
    for field, value in DEFAULTS.items():
        assert f"'{field}': {value!r}" in asked
    assert "'machine_type': 'n1-standard-4'" in asked
    names = {kind: [one.name for one in wanted(config, "proj") if one.kind == kind] for kind in NAMES}
    assert names == NAMES
    assert "autoscaling" not in _named(config, "node pool", "tpu").fields
    roles = [one.fields for one in wanted(config, "proj") if one.kind == "role"]
    given = {(one["member"].partition(":")[2].partition("@")[0], one["role"]) for one in roles}
    assert given == {
        *(("gke-sa", f"roles/{role}") for role in ("storage.objectAdmin", "logging.logWriter")),
        *(("gke-sa", f"roles/{role}") for role in ("artifactregistry.reader", "monitoring.metricWriter")),
        *(("cloud-tpu-sa", f"roles/{role}") for role in ("storage.objectAdmin", "logging.logWriter")),
    }
    assert "version" not in _named(config, "cluster").fields["release_channel"]


def _named(config: EnvironmentConfig, kind: str, name: str = "") -> Wanted:
    return next(one for one in wanted(config, "proj") if one.kind == kind and name in one.name)


WRONG = {
    "zone=us-east5-b": "--set zone=us-east5-b: zone: us-east5-b is not in the region us-central2",
    "tpu.hosts=3": "--set tpu.hosts=3: hosts: a slice of ct4p-hightpu-4t with topology 2x2x2 is 2 hosts, not 3",
    "tpu.topology=3x3": "topology 3x3 does not fit ct4p-hightpu-4t",
    "tpu.machine_type=n1-standard-4": "machine_type: n1-standard-4 is no TPU machine type: there are ct",
    "tpu.machine_type=ct5q-hightpu-4t": "ct5q-hightpu-4t is no TPU machine type: did you mean ct5p-hightpu-4t?",
    "tpu.machine_type=l4-8": "machine_type: l4-8 is no TPU machine type",
    "tpu={machine_type: l4-1, topology: 2x2}": "machine_type: l4-1 is no TPU machine type",
    "cluster.maintenance=3:00": 'write it in quotes, "03:00": without, YAML makes a number of it, 180',
    "network.subnet_range=127.0.0.0/20": "127.0.0.0/20 is in 127.0.0.0/8, which no network may use",
    "network.pods_range=224.0.0.0/16": "which no network may use",
    "bucket.name=goog-x": "names that begin with goog, or have google in them, are Google's own",
    "bucket.name=192.168.1.1": "192.168.1.1 is an address, and no bucket may be called like one",
    "tensorboard={location: us-central2}": "Vertex AI is not in us-central2: leave it out, or take us-central1",
    "namespace=kube-system": "namespace: kube-system is the cluster's own",
    "teams=[{name: kueue-system}]": "name: kueue-system is a namespace of the cluster's own",
    "teams=[{name: a, namespace: gke-x}]": "namespace: gke-x is a namespace of the cluster's own",
    "tpu.capacity=reservation": "capacity: reservation names no reservation",
    "tpu.capacity=flex_start": "ct4p-hightpu-4t is not given as flex_start",
    "tpu.capacity=cheap": "capacity must be",
    "network.pods_range=10.129.8.0/21": "pods_range: 10.129.8.0/21 and subnet_range 10.129.0.0/20 overlap",
    "network.services_range=192.168.0.0/16": "services_range: 192.168.0.0/16 and pods_range 192.168.64.0/20 overlap",
    "network.subnet_range=192.168.80.0/24": "subnet_range: 192.168.80.0/24 and services_range 192.168.80.0/20 overlap",
    "network.subnet_range=10.1.2.3/20": "is no range such as 10.129.0.0/20",
    "network.subnet_range=10.1.2.0/30": "from /8 to /28",
    "network.pods_range=10.4.0.0/22": "pods_range: 10.4.0.0/22 has 1024 addresses, and 2 TPU nodes and 4 CPU nodes "
    "need 1088: take a /21, or leave it out",
    "network.host_project=other": "host_project: a shared VPC is there already: add existing: true",
    "network={name: net, subnet: sub, nat: false, router: r}": "router: nat: false makes none",
    "network.services_range_name=pods": "services_range_name: pods is pods_range_name as well",
    "cluster.fields={network: other}": "fields: network is said by network.name: leave it out",
    "cluster.fields={private_cluster_config.enable_private_nodes: false}": "is said by cluster.private",
    "cluster.fields={private_cluster_config: {}}": "fields: private_cluster_config is said by cluster.private",
    "cluster.fields={release_channel.channel: RAPID}": "is said by cluster.channel",
    "cluster={name: mine, version: '1.33', fields: {initial_cluster_version: '1.32'}}": "is said by cluster.version",
    "tpu.fields={config.labels.multislice-group: b}": "is said by tpu.multislice_group",
    "tpu.fields={config.reservation_affinity.key: k}": "is said by tpu.capacity and tpu.reservations",
    "cpu_pool.machine_type=ct5p-hightpu-4t": "machine_type: ct5p-hightpu-4t has accelerators",
    "cpu_pool.machine_type=a3-highgpu-8g": "a3-highgpu-8g has accelerators",
    "network.nmae=x": "--set network.nmae=x: unknown key 'nmae', did you mean 'name'?",
    "record=2024-01-01": "not 2024-01-01, a date: in quotes it is text",
    "record=gs://records": "record must be a folder of a bucket",
    "record=gs://artifacts/environments": "record: artifacts is the environment's own bucket",
    "accounts.nodes.name=sa": "from 6 to 30 in all, not 'sa'",
    "accounts.nodes.name=cloud-tpu-sa": "nodes and workloads need accounts of their own",
    "accounts.nodes.roles=[all of them]": "must be a role, such as roles/storage.objectAdmin",
    "tpu_pools=-1": "tpu_pools must be at least 0, not -1",
    "tpu_pools=true": "tpu_pools must be a whole number, not true",
    "cluster.private_endpoint=true": "private_endpoint needs private: true",
    "cluster.authorized_networks=[10.0.0.300/8]": "is no network such as 203.0.113.0/24",
    "cpu_pool.most=2": "most is less than nodes",
    "teams=[{name: a}, {name: a}]": "name: a is that of team 1 as well",
    "teams=[{name: a, namespace: b}, {name: b}]": "namespace: b is that of team 1 as well",
    "teams=[{name: a, lend: 1}]": "lend: only who has slices of its own can lend",
    "teams=[{name: a, slices: 1, lend: 2}]": "a team of 1 cannot lend 2",
    "cluster=5": "must be a mapping of names to values, not 5",
    "tpu_pools": "override 'tpu_pools' is not KEY=VALUE, write tpu_pools=0",
    "region.x=1": "override 'region.x=1': there is no region.x, region is 'us-central2', which has no parts",
    "teams.0.name=x": "--set teams.0.name=x: teams must be a list",
    "teams=[{name: a, slice: 1}]": "unknown key 'slice', did you mean 'slices'?",
    "bucket={location: us}": "name is missing",
}


@pytest.mark.parametrize("override", WRONG)
def test_what_cannot_be_is_refused_at_its_place(tmp_path: Path, override: str) -> None:
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, LEAST, override)
    assert WRONG[override] in str(refused.value)


RISKY = {
    "accounts.nodes.roles=[owner]": "with roles/owner whoever gets into a pod",
    "accounts.workloads.roles=[storage.admin]": "accounts.workloads.roles: with roles/storage.admin",
    "cluster.authorized_networks=[all=0.0.0.0/0]": "all=0.0.0.0/0 lets everybody reach the control plane",
    "network={name: n, subnet: s, nat: false}": "private nodes without it reach nothing outside of Google",
    "network={name: n, subnet: s, existing: true, host_project: h}": "in a shared VPC no router is made unasked",
    "network={name: n, subnet: s, existing: true}": "network.iap: in a network that is there no rule is made",
    "network.subnet_range=44.0.0.0/20": "44.0.0.0/20 are public addresses",
    "teams=[{name: a, slices: 2}]": "teams: their own slices are 2 in all, and tpu_pools: 1 are there",
}


@pytest.mark.parametrize("override", RISKY)
def test_what_may_not_be_meant_is_warned_of(tmp_path: Path, override: str) -> None:
    config = loaded(tmp_path, LEAST, "cluster.private=true", override)
    assert [one for one in preview(config, "proj", {}).warnings if RISKY[override] in one]


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = LEAST.replace("{name: net, subnet: sub}", "{name: net, subnet: sub, pods_range: 10.129.0.0/16}")
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, f"{text}tpu:\n  hosts: 5\n", "zone=us-east5-b")
    places = [str(one.place).rpartition("/")[2] for one in refused.value.problems]
    assert places == ["--set zone=us-east5-b", "e.yaml:8:3", "e.yaml:4:35"]


@pytest.mark.parametrize("pools", [0, 1, 40, 60, 125, 900])
def test_ranges_that_nobody_says_grow_with_the_nodes_and_stay_apart(tmp_path: Path, pools: int) -> None:
    config = loaded(tmp_path, LEAST, f"tpu_pools={pools}", "tpu.topology=4x4x4")
    nodes, pods, _ = config.ranges
    assert nodes.has_room(nodes.cidr) and pods.has_room(pods.cidr)
    assert (nodes.cidr == "10.129.0.0/20") == (config.sizes.nodes + 4 <= 4096)
    assert (pods.cidr == "192.168.64.0/20") == (pods.least <= 4096)


def test_a_range_that_is_told_is_taken_as_it_is() -> None:
    config = EnvironmentConfig.model_validate(
        {**yaml.safe_load(LEAST), "network": {"name": "n", "subnet": "s", "pods_range": "10.4.0.0/14"}}
    )
    assert [one.told for one in ranges_of(config.network, config.sizes)] == [False, True, False]


def test_a_network_that_is_there_is_not_made(tmp_path: Path) -> None:
    shared = "network={name: net, subnet: sub, existing: true, host_project: host}"
    config = loaded(tmp_path, LEAST, shared, "cluster.private=true")
    made = {one.kind: one for one in wanted(config, "proj")}
    assert made["network"].existing and made["subnetwork"].existing
    assert made["subnetwork"].scope == "host/us-central2"
    assert made["cluster"].fields["network"] == "projects/host/global/networks/net"
    assert not {"router", "firewall"} & set(made)
    assert "roles/compute.networkAdmin" not in {need.role for need in needs_of(config)}


def test_nodes_without_addresses_get_a_way_out(tmp_path: Path) -> None:
    config = loaded(tmp_path, LEAST, "cluster.private=true")
    router = _named(config, "router")
    assert router.name == "net-router" and router.fields["nats"][0]["natIpAllocateOption"] == "AUTO_ONLY"
    without = loaded(tmp_path, LEAST, "cluster.private=true", "network.nat=false")
    assert "router" not in {one.kind for one in wanted(without, "proj")}


def test_where_nothing_is_installed_nothing_inside_the_cluster_is_promised(tmp_path: Path) -> None:
    inside = {"namespace", "kubernetes account", "queue"}
    assert inside <= {one.kind for one in wanted(loaded(tmp_path, LEAST), "proj")}
    config = loaded(tmp_path, LEAST, "queueing.install=false")
    assert not inside & {one.kind for one in wanted(config, "proj")}


def test_quotas_of_teams_that_nobody_keeps_are_told(tmp_path: Path) -> None:
    own = "teams=[{name: a, slices: 1}]"
    assert preview(loaded(tmp_path, LEAST, own), "proj", {}).warnings == ()
    [told] = preview(loaded(tmp_path, LEAST, own, "queueing.install=false"), "proj", {}).warnings
    assert "you divide the quota yourself" in told


def test_several_teams_have_namespaces_of_their_own(tmp_path: Path) -> None:
    config = loaded(tmp_path, LEAST, "teams=[{name: a}, {name: b, namespace: space}]")
    found = wanted(config, "proj")
    assert [one.name for one in found if one.kind == "namespace"] == ["a", "space"]
    members = [one.fields["member"] for one in found if one.kind == "account role"]
    assert members == [f"serviceAccount:proj.svc.id.goog[{space}/cloud-tpu-sa]" for space in ("a", "space")]


@pytest.mark.parametrize(
    ("tpu", "nodes", "most", "topology"),
    [
        ("{autoscaling: true}", 0, 2, "2x2x2"),
        ("{autoscaling: true, machine_type: ct5lp-hightpu-8t}", 0, 1, None),
        ("{machine_type: ct5lp-hightpu-8t}", 1, None, None),
        ("{machine_type: ct5lp-hightpu-4t, topology: 4x4, capacity: flex_start}", 0, 4, "4x4"),
    ],
)
def test_pools_grow_by_whole_slices(
    tmp_path: Path, tpu: str, nodes: int, most: int | None, topology: str | None
) -> None:
    pool = _named(loaded(tmp_path, LEAST, f"tpu={tpu}"), "node pool", "tpu-node-pool-0").fields
    assert pool["initial_node_count"] == nodes
    assert pool.get("autoscaling", {}).get("max_node_count") == most
    assert pool.get("placement_policy", {}).get("tpu_topology") == topology


def test_manifests_lie_beside_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (elsewhere / "said.yaml").touch()
    (tmp_path / "kueue.yaml").touch()
    (elsewhere / "kueue.yaml").touch()

    def addresses(*overrides: str) -> list[str]:
        queueing = loaded(tmp_path, LEAST, *overrides).queueing
        return [queueing.jobset.address, queueing.kueue.address]

    both = addresses("queueing={jobset: {manifests: sub/jobset.yaml}, kueue: {manifests: kueue.yaml}}")
    assert both == [f"{tmp_path}/sub/jobset.yaml", f"{tmp_path}/kueue.yaml"]
    far = "https://example.com/kueue.yaml"
    assert addresses(f"queueing={{jobset: {{manifests: said.yaml}}, kueue: {{manifests: {far}}}}}") == [
        "said.yaml",
        far,
    ]
    assert all(one.startswith("https://github.com/") for one in addresses())
    text = "kind: gke\ntype: v5litepod-16\ncluster: {name: c, location: us-east5, make: {queueing: {kueue: "
    file = tmp_path / "t.yaml"
    file.write_text(f"{text}{{manifests: ./kueue.yaml}}}}}}}}\n")
    target = load_target(file)
    assert (
        isinstance(target, GkeTargetConfig) and target.cluster is not None and target.cluster.make is not None
    )
    assert target.cluster.make.queueing.kueue.address == f"{tmp_path}/kueue.yaml"
