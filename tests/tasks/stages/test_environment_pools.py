"""Node pools of an environment: changed in place where GKE can, else told how."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_errors import Busy
from tasks.cloud.container_model import Cluster
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.leases.claim import claim
from tasks.stages.clusters import create, delete, preview
from tasks.stages.environment import down, up
from tasks.stages.environment_changes import change_cluster, differs, set_by_others
from tasks.stages.environment_plan import lost_record, others_in, plan
from tasks.stages.environment_record import about_to, another_cluster, made_so
from tasks.targets.cluster_plan import Step
from tasks.targets.cluster_soon import as_planned
from tasks.targets.kube_room import held_in
from tests.cloud.container.leasing import a_ledger, office
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment, inventories, owning

CLUSTER = "projects/proj/locations/us-east5/clusters/mine"
ACCOUNT = '"gke-sa@proj.iam.gserviceaccount.com" → "other-sa@proj.iam.gserviceaccount.com"'
STAYS = [
    f"node pool cpu: config.service_account: {ACCOUNT} (delete node pool cpu in GKE, and `env up` makes it anew)",
    f"node pool tpu-node-pool-0: config.service_account: {ACCOUNT} "
    "(`env up` with --set tpu_pools=0, then without it, makes the pools anew)",
]


def make(say: Callable[[str], None] = lambda line: None, **fields: Any) -> None:
    owning(environment(**fields))
    create(office(say), "mine", cluster_of(environment(**fields), "proj"), lasting=True)


def told(config: EnvironmentConfig) -> list[str]:
    """Returns what of cluster and pools is not as wanted, and what brings that about which cannot be changed."""
    return [
        f"{what}: {one}{f' ({one.instead})' if one.instead else ''}"
        for what, fields in differs(desk(), config).items()
        for one in fields
    ]


def test_what_pools_can_be_changed_in_is_changed_and_the_rest_is_told(gke: Gke) -> None:
    make()
    assert told(environment()) == []
    with gke.store.changing() as state:  # by hand
        pools = state["clusters"][CLUSTER]["pools"]
        pools["cpu"]["spec"]["management"]["auto_repair"] = False
        pools["cpu"]["spec"]["autoscaling"]["total_max_node_count"] = 9
        pools["tpu-node-pool-0"]["spec"]["config"]["labels"]["theirs"] = "too"
    wanted = environment(
        cpu_pool={"nodes": 4, "machine_type": "n1-standard-8", "disk_gb": 300},
        tpu={"machine_type": "ct5lp-hightpu-4t", "topology": "4x4", "multislice_group": "other"},
        accounts={"nodes": {"name": "other-sa"}},
    )
    changed = [
        "node pool cpu: management.auto_repair: nothing → true",
        "node pool cpu: autoscaling.total_min_node_count: 3 → 4",
        "node pool cpu: autoscaling.total_max_node_count: 9 → 4",
        "node pool cpu: size: 3 → 4",
        'node pool cpu: config.machine_type: "n1-standard-4" → "n1-standard-8"',
        "node pool cpu: config.disk_size_gb: 200 → 300",
        'node pool tpu-node-pool-0: config.labels.multislice-group: "multi-slice-group" → "other"',
    ]
    assert sorted(told(wanted)) == sorted([*STAYS, *changed])
    gke.forget()
    gke.fault("UpdateNodePool", "error", code="FAILED_PRECONDITION", message="CLUSTER_ALREADY_HAS_OPERATION")
    said: list[str] = []
    change_cluster(desk(said.append), wanted)
    assert told(wanted) == STAYS
    assert [one.partition(": config")[0] for one in said if one.startswith("warning")] == [
        "warning: node pool cpu stays as it is",
        "warning: node pool tpu-node-pool-0 stays as it is",
    ]
    slices = gke.store.read()["clusters"][CLUSTER]["pools"]["tpu-node-pool-0"]["spec"]
    assert slices["config"]["labels"]["theirs"] == "too"
    assert {one["method"] for one in gke.mutations()} == {
        "SetNodePoolAutoscaling",
        "SetNodePoolManagement",
        "SetNodePoolSize",
        "UpdateNodePool",
    }


def test_a_pool_that_somebody_resized_shows_as_that_alone_and_has_its_nodes_again(gke: Gke) -> None:
    """GKE tells with how many nodes a pool began, whatever becomes of it; an autoscaler's doing is nobody's."""

    make()
    for pool, nodes, shown in (("cpu", 1, "1 → 3"), ("cpu", 4, ""), ("tpu-node-pool-0", 0, "0 → 4")):
        gke.resize("mine", pool, nodes)
        gke.no_faults()
        assert told(environment()) == [f"node pool {pool}: size: {shown}"] * bool(shown)
        gke.forget()
        gke.fault("SetNodePoolSize", "lose_reply")
        said: list[str] = []
        assert change_cluster(desk(said.append), environment()) == []
        assert said == [f"change node pool {pool}: size: {shown}"] * bool(shown)
        assert {one["method"] for one in gke.mutations()} <= {"SetNodePoolSize"}
        assert told(environment()) == []
    pools = gke.store.read()["clusters"][CLUSTER]["pools"]
    assert {name: (one["nodes"], one["spec"]["initial_node_count"]) for name, one in pools.items()} == {
        "cpu": (4, 3),
        "tpu-node-pool-0": (4, 4),
    }


def test_slices_of_another_name_are_compared_and_their_name_is_told(gke: Gke) -> None:
    """They are kept whatever they are called: nothing of them may go unseen."""
    make(tpu_pools=2)
    gke.vanish("mine", "tpu-node-pool-0")
    gke.resize("mine", "tpu-node-pool-1", 0)
    assert told(environment()) == ["node pool tpu-node-pool-1: size: 0 → 4"]
    tpu = {"machine_type": "ct5lp-hightpu-4t", "topology": "4x4", "pool_prefix": "other"}
    again = "`env up` with --set tpu_pools=0, then without it, makes the pools anew"
    assert told(environment(tpu=tpu)) == [
        f'node pool tpu-node-pool-1: name: "tpu-node-pool-1" → "other-N" ({again})',
        "node pool tpu-node-pool-1: size: 0 → 4",
    ]
    assert len(change_cluster(desk(), environment(tpu=tpu))) == 1
    assert gke.store.read()["clusters"][CLUSTER]["pools"]["tpu-node-pool-1"]["nodes"] == 4


def test_nodes_that_are_too_many_are_told_and_stay_with_what_runs_on_them(gke: Gke) -> None:
    make()
    gke.resize("mine", "cpu", 9)
    gke.forget()
    by_hand = "gcloud container clusters resize mine --location us-east5 --node-pool cpu --num-nodes 4"
    instead = f"its autoscaler takes away nodes that nobody uses; `{by_hand}` takes nodes away with what runs on them"
    assert told(environment()) == [f"node pool cpu: size: 9 → 4 ({instead})"]
    assert change_cluster(desk(), environment()) == ["node pool cpu: size: 9 → 4"]
    assert gke.mutations() == []
    changed = "node pool cpu: autoscaling.total_max_node_count: 4 → 9"
    assert told(environment(cpu_pool={"most": 9})) == [changed]
    assert change_cluster(desk(), environment(cpu_pool={"most": 9})) == []
    assert told(environment(cpu_pool={"most": 9})) == []


def test_who_may_not_look_is_told_that_sizes_are_not_known(gke: Gke) -> None:
    make()
    gke.resize("mine", "tpu-node-pool-0", 0)
    gke.set(denied=["GetInstanceGroupManager"])
    [line] = set_by_others(desk(), environment())
    assert line.startswith("whether somebody resized node pool cpu is not known (")
    assert told(environment()) == []
    said: list[str] = []
    change_cluster(desk(said.append), environment())
    assert said == [f"warning: {line}"]


def test_what_a_cluster_can_be_changed_in_is_changed_and_the_rest_is_told(gke: Gke) -> None:
    mine = {"name": "mine", "private": True, "maintenance": "03:00", "version": "1.31"}
    cluster = {**mine, "authorized_networks": ["office=203.0.113.0/24"]}
    make(cluster=cluster)
    assert told(environment(cluster=cluster)) == []
    with gke.store.changing() as state:  # by hand
        spec = state["clusters"][CLUSTER]["spec"]
        networks = spec["master_authorized_networks_config"]["cidr_blocks"]
        networks.insert(0, {"display_name": "all", "cidr_block": "0.0.0.0/0"})
        del spec["maintenance_policy"]
        spec["addons_config"]["gcs_fuse_csi_driver_config"]["enabled"] = False
        spec["autoscaling"] = {"autoscaling_profile": "BALANCED", "enable_node_autoprovisioning": True}
    shown = told(environment(cluster=cluster))
    assert [one.partition(": ")[2].partition(":")[0] for one in shown] == [
        "master_authorized_networks_config.cidr_blocks",
        "addons_config.gcs_fuse_csi_driver_config.enabled",
        "autoscaling.autoscaling_profile",
        "maintenance_policy.window.daily_maintenance_window.start_time",
    ]
    assert '"cidr_block": "0.0.0.0/0"' in shown[0]
    assert change_cluster(desk(), environment(cluster=cluster)) == []
    assert told(environment(cluster=cluster)) == []
    assert gke.store.read()["clusters"][CLUSTER]["spec"]["autoscaling"]["enable_node_autoprovisioning"]
    later = {**cluster, "maintenance": "04:00", "version": "1.32", "description": "other"}
    stays = change_cluster(desk(), environment(cluster=later))
    assert stays == [
        'cluster mine: initial_cluster_version: "1.31" → "1.32"',
        'cluster mine: description: "TPU training and checkpoint benchmarks" → "other"',
    ]
    assert "gcloud container clusters upgrade" in told(environment(cluster=later))[0]
    assert len(told(environment(cluster=later))) == 2, "the other maintenance window has been asked for"


FREEZE = {
    "launch": {
        "start_time": "2027-01-01T00:00:00Z",
        "end_time": "2027-01-08T00:00:00Z",
        "maintenance_exclusion_options": {"scope": "NO_MINOR_UPGRADES"},
    }
}


def test_a_window_goes_with_the_file_and_what_others_excluded_from_it_stays(gke: Gke) -> None:
    def window() -> Any:
        return gke.store.read()["clusters"][CLUSTER]["spec"]["maintenance_policy"]["window"]

    def by_hand(**fields: Any) -> None:
        with gke.store.changing() as state:
            state["clusters"][CLUSTER]["spec"].setdefault("maintenance_policy", {})["window"] = fields

    early, late, none = (
        environment(cluster={"name": "mine", "private": True, **more})
        for more in ({"maintenance": "03:00"}, {"maintenance": "04:00"}, {})
    )
    create(office(), "mine", cluster_of(early, "proj"), lasting=True)
    held = claim(a_ledger(), inventories(a_ledger()), "environment-mine_proj", None)
    held.stand(None)
    held.describe(made_so(early), None)
    by_hand(**window(), maintenance_exclusions=FREEZE)
    gke.set(faster_updates=2)  # and meanwhile others change it as well
    held.describe(about_to(held.lease.shape, late), None)
    change_cluster(desk(), late)
    start = "maintenance_policy.window.daily_maintenance_window.start_time"
    assert told(none) == [f'cluster mine: {start}: "04:00" → nothing'], (
        "killed before it is written down as done"
    )
    held.describe(made_so(late), None)
    assert window() == {"daily_maintenance_window": {"start_time": "04:00"}, "maintenance_exclusions": FREEZE}
    by_hand(recurring_window={"recurrence": "FREQ=DAILY"}, maintenance_exclusions=FREEZE)
    change_cluster(desk(), late)
    assert window() == {"daily_maintenance_window": {"start_time": "04:00"}, "maintenance_exclusions": FREEZE}
    assert told(none) == [f'cluster mine: {start}: "04:00" → nothing']
    assert not [one for one in set_by_others(desk(), none) if "is upgraded from" in one]
    assert (change_cluster(desk(), none), told(none)) == ([], [])
    assert window() == {"maintenance_exclusions": FREEZE}
    by_hand(daily_maintenance_window={"start_time": "05:00"})
    assert told(none) == [], "it is not the file's"
    assert [one for one in set_by_others(desk(), none) if "is upgraded from 05:00 on" in one]


def test_what_stands_beside_what_is_changed_of_a_cluster_stays(gke: Gke) -> None:
    cluster = {"name": "mine", "private": True, "authorized_networks": ["office=203.0.113.0/24"]}
    make(cluster=cluster)
    networks = {"enabled": True, "gcp_public_cidrs_access_enabled": True, "cidr_blocks": []}
    grown = {"autoscaling_profile": "BALANCED", "autoprovisioning_locations": ["us-east5-a"]}
    with gke.store.changing() as state:  # by hand
        spec = state["clusters"][CLUSTER]["spec"]
        spec["master_authorized_networks_config"], spec["autoscaling"] = networks, grown
        spec["monitoring_config"]["managed_prometheus_config"] = {"enabled": True}
        spec["monitoring_config"]["component_config"] = {"enable_components": ["SYSTEM_COMPONENTS", "DCGM"]}
        labels = state["clusters"][CLUSTER]["pools"]["tpu-node-pool-0"]["spec"]["config"]["labels"]
        labels["multislice-group"] = "another"
    gke.set(faster_updates=3)
    assert change_cluster(desk(), environment(cluster=cluster)) == []
    spec = gke.store.read()["clusters"][CLUSTER]["spec"]
    office_alone = {"display_name": "office", "cidr_block": "203.0.113.0/24"}
    assert spec["master_authorized_networks_config"] == {**networks, "cidr_blocks": [office_alone]}
    assert spec["autoscaling"] == {**grown, "autoscaling_profile": "OPTIMIZE_UTILIZATION"}
    assert spec["monitoring_config"]["managed_prometheus_config"] == {"enabled": True}
    assert gke.store.read()["settings"]["faster_updates"] == 0


def test_networks_that_the_file_does_not_name_any_more_are_no_limit(gke: Gke) -> None:
    make()
    assert told(environment(cluster={"name": "mine"})) == [
        "cluster mine: master_authorized_networks_config.enabled: true → false"
    ]
    change_cluster(desk(), environment(cluster={"name": "mine"}))
    assert told(environment(cluster={"name": "mine"})) == []
    assert told(environment()) == ["cluster mine: master_authorized_networks_config.enabled: nothing → true"]


def test_quotas_are_made_for_the_machines_that_a_plan_leaves() -> None:
    """A slice that is missing is back by then, and controllers have at most the machines that are asked for."""
    config = cluster_of(environment(tpu_pools=2), "proj")
    bare = Cluster("proj", "us-east5", "mine", "1", "RUNNING", zones=("us-east5-a", "us-east5-b"))
    make_all = [Step("make pool", name) for name in ("cpu", "tpu-node-pool-0", "tpu-node-pool-1")]
    whole = as_planned(bare, config, make_all)
    kinds = {one.shape.machine_type: one.machines for one in held_in(whole)}
    assert kinds == {"n1-standard-4": 8, "ct5lp-hightpu-4t": 8}
    cpu, first, second = whole.pools
    by_hand = replace(whole, pools=(replace(cpu, most=9), first))
    assert as_planned(by_hand, config, make_all[2:]) == whole
    assert as_planned(whole, config, [Step("remove pool", second.name)]).pools == (cpu, first)
    waits = replace(whole, pools=(cpu, first, replace(second, state="PROVISIONING")))
    assert as_planned(waits, config, [Step("wait for", second.name, "it is being made")]) == whole


def test_cpu_machines_keep_their_room_while_the_tpus_are_given_back(gke: Gke) -> None:
    """They come again, and so would what the controllers need: only a maximum that is said is kept to."""
    make()
    given_back = environment(tpu_pools=0)
    assert told(given_back) == []
    config = cluster_of(given_back, "proj")
    [there] = office().container.clusters()
    kept = as_planned(there, config, [Step("remove pool", "tpu-node-pool-0")])
    assert [(one.name, one.most) for one in kept.pools] == [("cpu", 4)]
    changed = "node pool cpu: autoscaling.total_max_node_count: 4 →"
    assert told(environment(tpu_pools=0, cpu_pool={"most": 3})) == [f"{changed} 3"]
    more = told(environment(tpu_pools=0, cpu_pool={"nodes": 5}))[1:]
    assert more == [f"{changed} 5", "node pool cpu: size: 3 → 5"]


def test_labels_of_the_cluster_that_somebody_took_away_are_written_again(gke: Gke) -> None:
    make()
    with gke.store.changing() as state:
        spec = state["clusters"][CLUSTER]["spec"]
        labels, spec["resource_labels"] = spec["resource_labels"], {"theirs": "too"}
    planned = preview(office(), "mine", cluster_of(environment(), "proj"))
    assert list(map(str, planned.steps)) == ["label cluster mine (somebody took its labels away)"]
    gke.forget()
    make()
    assert [one["method"] for one in gke.mutations()] == ["SetLabels"]
    again = gke.store.read()["clusters"][CLUSTER]["spec"]["resource_labels"]
    assert again == {"theirs": "too", **{key: value for key, value in labels.items() if "expires" not in key}}
    assert list(preview(office(), "mine", cluster_of(environment(), "proj")).steps) == []
    delete(office(), "mine")
    assert gke.inventory() == []


def test_a_record_that_has_lost_what_was_made_says_so(project: Gke) -> None:
    project.set(whole=False)
    make()
    assert lost_record(desk(), environment()) is None
    ledger = a_ledger()
    for one in ledger.listing().leases:
        ledger.remove(one)
    lost = lost_record(desk(), environment())
    words = "cluster mine is there, made by .* under lease cluster-mine_proj-e1, and the record .* knows nothing of it"
    assert lost is not None and re.match(words, lost.what)
    assert others_in(office(), environment(), desk()) == [lost]
    project.forget()
    with pytest.raises(BadInput, match=words):
        down(desk(), environment())
    assert project.mutations() == []


def test_no_other_cluster_is_made_or_given_back_while_that_of_the_record_stands(project: Gke) -> None:
    """A file that names another one knows nothing of the first, which would stay, and cost."""
    project.set(whole=False)
    lab, renamed = (
        environment(name="lab"),
        environment(name="lab", cluster={"name": "other", "private": True}),
    )
    owning(lab)
    assert another_cluster(a_ledger(), renamed, "proj") == [], "there is none yet"
    create(office(), "mine", cluster_of(lab, "proj"), lasting=True)
    project.forget()
    words = "environment lab has cluster mine, and the file names other"
    for act in (up, down):
        with pytest.raises(BadInput, match=f"{words}.*env down FILE --set cluster.name=mine"):
            act(desk(), renamed)
    assert project.mutations() == []
    assert [one for one in plan(desk(), renamed).problems if words in one.what]
    delete(office(), "mine")
    assert another_cluster(a_ledger(), renamed, "proj") == []


def test_the_cluster_of_another_environment_in_the_same_record_is_not_touched(project: Gke) -> None:
    """A file that was copied, and kept the cluster's name, took it over, and gave it back."""
    project.set(whole=False)
    first, copied = environment(name="first"), environment(name="copied", bucket={"name": "second"})
    owning(first)
    create(office(), "mine", cluster_of(first, "proj"), lasting=True)
    project.forget()
    for act in (up, down):
        with pytest.raises(
            BadInput, match="cluster mine is environment first's, which is in this record as well"
        ):
            act(desk(), copied)
    assert project.mutations() == []
    assert [one for one in plan(desk(), copied).problems if "environment first's" in one.what]
    assert another_cluster(a_ledger(), first, "proj") == []
    held = claim(a_ledger(), inventories(a_ledger()), "environment-first_proj", None)
    held.fall()
    held.release("it goes")
    project.forget()
    for act in (up, down):  # nor is one that `cluster create` made, or that nothing else in the record knows
        with pytest.raises(
            BadInput, match="cluster mine is in this record, and was not made for environment copied"
        ):
            act(desk(), copied)
    assert project.mutations() == []
    delete(office(), "mine")
    assert another_cluster(a_ledger(), copied, "proj") == []


def test_a_change_that_cannot_be_had_in_time_is_told(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    words = "Cluster is running incompatible operation"
    gke.fault("UpdateNodePool", "error", code="FAILED_PRECONDITION", message=words, times=1000)
    monkeypatch.setattr("tasks.cloud.container_update.LIMIT_S", 0.1)
    with pytest.raises(Busy, match="cannot change config.disk_size_gb of node pool cpu"):
        change_cluster(desk(), environment(cpu_pool={"disk_gb": 300}))
