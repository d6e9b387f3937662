"""What is explained of the things that really happened on a cluster, and links to where one sees more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.explain.kube_links import GkePlace, cluster_link, job_link, logs_filter, logs_link
from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.targets.kube_objects import happened_at, name
from tests.tasks.targets.kube_replay import Store, lines, replay

EXPLAINED = [
    ("b-exit1-norestart", 99, {"bad": ["program_failed"]}),
    ("c-exit1-maxrestarts1", 13, {"retry": ["program_failed"]}),
    ("c-exit1-maxrestarts1", 99, {"retry": []}),
    ("d-quota-wait", 10, {"first": [], "second": ["waits_for_quota"]}),
    ("d-quota-wait", 99, {"first": [], "second": []}),
    ("e2-preempt-workloadpriority", 17, {"lowjob": ["preempted"], "highjob": ["waits_for_quota"]}),
    ("f-never-fits", 99, {"big": ["never_fits"]}),
    ("g-no-localqueue", 5, {"noq": ["queue"]}),
    ("g-no-localqueue", 99, {"noq": []}),
    ("h-unschedulable-nodepool", 999, {"nonode": ["wrong_hardware"]}),
    ("i-imagepullbackoff", 20, {"noimg": ["image_pull"]}),
    ("i-imagepullbackoff", 99, {"noimg": ["deleted"]}),
    ("j3-delete-recreate-same-name", 26, {"del": ["waits_for_capacity"]}),
    ("m-pod-deleted", 9, {"evict": ["deleted"]}),
    ("n-real-command", 99, {"real": ["program_failed"]}),
]


def explained(store: Store) -> dict[str, list[str]]:
    now = max(map(happened_at, store.objects.values()))
    return {
        name(jobset): [
            trouble.name
            for trouble in kube_troubles(KubeScene(name(jobset), store.of(uid), store.found[uid], now))
        ]
        for uid, jobset in store.jobsets.items()
    }


@pytest.mark.parametrize("recording, at_s, troubles", EXPLAINED)
def test_what_happened_is_explained(recording: str, at_s: float, troubles: dict[str, list[str]]) -> None:
    assert explained(replay(recording, at_s)) == troubles


@pytest.mark.parametrize("recording", ["k2-ttl-complete"])
def test_of_what_goes_well_nothing_is_explained_at_any_line(recording: str) -> None:
    store = Store()
    for line in lines(recording):
        store.take(line)
        if store.jobsets and line["kind"] in ("Workload", "JobSet", "Pod"):
            assert not any(explained(store).values()), line["t"]


def test_who_holds_the_quota_is_evidence() -> None:
    store = replay("d-quota-wait", 10)
    uid = list(store.jobsets)[1]
    [trouble] = kube_troubles(KubeScene("second", store.of(uid), store.found[uid], 0.0))
    assert str(trouble.evidence[1].text) == "has quota in d-quota-wait, priority 0"
    assert trouble.what.endswith("place 1 of 1 in queue d-quota-wait")
    assert trouble.next[0] == "slicebench workload list --status RUNNING   # who holds it"
    objects = store.of(uid)
    theirs = [{**one, "metadata": {**one["metadata"], "namespace": "lab"}} for one in objects.neighbours]
    [trouble] = kube_troubles(
        KubeScene("second", replace(objects, neighbours=theirs), store.found[uid], 0.0, "mine")
    )
    assert str(trouble.evidence[1].text) == "has quota in d-quota-wait, priority 0, in namespace lab"
    who, more = trouble.next
    assert who == "slicebench workload list --status RUNNING --all-namespaces   # who holds it"
    assert more.endswith("   # of an environment: slicebench env up FILE --set tpu_pools=N")


PLACE = GkePlace("my-project", "us-east5-b", "bench", "team a")


def test_links_lead_to_cluster_job_and_logs() -> None:
    assert cluster_link(PLACE) == (
        "https://console.cloud.google.com/kubernetes/clusters/details/us-east5-b/bench/details?project=my-project"
    )
    assert job_link(PLACE, "w-s-0") == (
        "https://console.cloud.google.com/kubernetes/job/us-east5-b/bench/team%20a/w-s-0/details?project=my-project"
    )
    link = logs_link(PLACE, "w", "w-s-0-0-x", "ERROR")
    assert link.startswith(
        "https://console.cloud.google.com/logs/query;query=resource.type%3D%22k8s_container%22%0A"
    )
    assert link.endswith("severity%3E%3DERROR?project=my-project")


def test_the_filter_of_all_logs_of_a_workload_names_its_pods_by_prefix() -> None:
    assert logs_filter(PLACE, "w").splitlines() == [
        'resource.type="k8s_container"',
        'resource.labels.project_id="my-project"',
        'resource.labels.location="us-east5-b"',
        'resource.labels.cluster_name="bench"',
        'resource.labels.namespace_name="team a"',
        'resource.labels.pod_name=~"^w-"',
    ]
