"""Shows that objects are kept as a real API server keeps them: versions, selectors, patches, dry runs, refusals."""

from __future__ import annotations

import pytest

from tests.cloud.kubernetes.manifests import cluster_queue, config_map, jobset, kueue, namespace, pod
from tests.cloud.kubernetes.space import Obj, Space, told


def test_versions_grow_over_all_kinds_and_uids_differ(api: Space) -> None:
    first = api.post("configmaps", config_map("a"))["metadata"]
    second = api.post("secrets", {**config_map("a"), "kind": "Secret"})["metadata"]
    assert int(second["resourceVersion"]) > int(first["resourceVersion"])
    assert first["uid"] != second["uid"]
    assert first["creationTimestamp"].endswith("Z")


def test_generated_names_end_in_five_letters(api: Space) -> None:
    made = {**config_map("x"), "metadata": {"generateName": "x-"}}
    names = {api.post("configmaps", made)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert {len(one) for one in names} == {7}


def test_a_taken_name_is_409_and_a_missing_one_404(api: Space) -> None:
    api.post("configmaps", config_map("a"))
    refused = api.post("configmaps", config_map("a"), 409)
    assert (refused["reason"], refused["message"]) == ("AlreadyExists", 'configmaps "a" already exists')
    refused = api.get("jobsets", "nope", 404)
    assert refused["message"] == 'jobsets.jobset.x-k8s.io "nope" not found'
    assert refused["details"] == {"name": "nope", "group": "jobset.x-k8s.io", "kind": "jobsets"}
    refused = told(api.http.post("/api/v1/namespaces/nowhere/configmaps", json=config_map("a")), 404)
    assert refused["message"] == 'namespaces "nowhere" not found'


def test_an_older_version_is_a_conflict(api: Space) -> None:
    old = api.post("configmaps", config_map("a", x="1"))
    api.patch("configmaps", "a", {"data": {"x": "2"}})
    refused = api.put("configmaps", "a", old, 409)
    assert refused["reason"] == "Conflict"
    assert "the object has been modified" in refused["message"]


def test_selectors(api: Space) -> None:
    api.post("configmaps", config_map("a", {"app": "x", "tier": "1"}))
    api.post("configmaps", config_map("b", {"app": "y"}))
    for selector, expected in {
        "app=x": ["a"],
        "app!=x": ["b", "kube-root-ca.crt"],
        "app in (x, y),tier": ["a"],
        "app notin (x)": ["b", "kube-root-ca.crt"],
        "!tier": ["b", "kube-root-ca.crt"],
        "app==y,!tier": ["b"],
    }.items():
        assert api.names("configmaps", labelSelector=selector) == expected, selector
    assert api.names("configmaps", fieldSelector="metadata.name=b") == ["b"]
    refused = api.get("configmaps", code=400, fieldSelector="data.x=1")
    assert refused["message"] == "field label not supported: data.x"


def test_pages_have_a_token_for_the_next(api: Space) -> None:
    for name in "abc":
        api.post("configmaps", config_map(name))
    page = api.get("configmaps", limit="2")
    assert [one["metadata"]["name"] for one in page["items"]] == ["a", "b"]
    assert page["metadata"]["remainingItemCount"] == 2
    page = api.get("configmaps", limit="2", **{"continue": page["metadata"]["continue"]})
    assert [one["metadata"]["name"] for one in page["items"]] == ["c", "kube-root-ca.crt"]
    assert "continue" not in page["metadata"]


def test_patches(api: Space) -> None:
    api.post("configmaps", config_map("a", x="1", y="2"))
    merged = api.patch("configmaps", "a", {"data": {"x": None, "z": "3"}})
    assert merged["data"] == {"y": "2", "z": "3"}
    patch = [{"op": "replace", "path": "/data/y", "value": "4"}]
    assert api.patch("configmaps", "a", patch, "json-patch+json")["data"] == {"y": "4", "z": "3"}
    refused = api.patch("configmaps", "a", {"metadata": {"resourceVersion": "1"}}, code=409)
    assert refused["reason"] == "Conflict"
    assert api.patch("configmaps", "a", {}, "what+json", 415)["reason"] == "UnsupportedMediaType"


def test_strategic_patches_merge_lists_by_their_keys_and_are_not_for_custom_kinds(api: Space) -> None:
    api.post("pods", pod("a", "import time; time.sleep(60)", nodeName=""))
    patch = {"metadata": {"labels": {"x": "1"}}, "spec": {"containers": [{"name": "main", "image": "img:2"}]}}
    patched = api.patch("pods", "a", patch, "strategic-merge-patch+json")
    (container,) = patched["spec"]["containers"]
    assert (container["image"], container["command"][0]) == ("img:2", "python")
    api.post("jobsets", jobset("a", suspend=True))
    api.patch("jobsets", "a", {"metadata": {"labels": {"x": "1"}}}, "strategic-merge-patch+json", 415)


def test_a_status_changes_through_its_subresource_alone(api: Space) -> None:
    made = api.post("jobsets", jobset("a", suspend=True, managedBy="example.com/nobody"))
    assert api.patch("jobsets", "a", {"status": {"restarts": 7}}).get("status") is None
    path = api.path("jobsets", "a") + "/status"
    patched = told(
        api.http.patch(
            path, json={"status": {"restarts": 7}}, headers={"content-type": "application/merge-patch+json"}
        ),
        200,
    )
    assert patched["status"]["restarts"] == 7
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]


def test_a_dry_run_writes_nothing_but_refuses_as_usual(api: Space) -> None:
    made = api.post("configmaps", config_map("a"), dryRun="All")
    assert made["metadata"]["uid"]
    api.get("configmaps", "a", 404)
    api.post("configmaps", config_map("a"))
    api.post("configmaps", config_map("a"), 409, dryRun="All")
    api.delete("configmaps", "a", dryRun="All")
    api.get("configmaps", "a")
    job = jobset("x")["spec"]["replicatedJobs"][0]["template"]
    job["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    refused = api.post(
        "jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **job}, 422, dryRun="All"
    )
    assert "spec.template.spec.restartPolicy: Required value: valid values" in refused["message"]


def test_unknown_fields_are_dropped_with_a_warning_or_refused_when_strict(api: Space) -> None:
    made = jobset("a", suspend=True, bogus=1)
    response = api.http.post(api.path("jobsets"), json=made)
    assert response.headers["warning"] == r'299 - "unknown field \"spec.bogus\""'
    assert "bogus" not in told(response, 201)["spec"]
    refused = api.post("jobsets", jobset("b", bogus=1), 400, fieldValidation="Strict")
    assert 'strict decoding error: unknown field "spec.bogus"' in refused["message"]
    inner = jobset("c", pod={"imagee": "x"})
    refused = api.post("jobsets", inner, 400, fieldValidation="Strict")
    assert 'unknown field "spec.replicatedJobs[0].template.spec.template.spec.imagee"' in refused["message"]


def test_wrong_types_are_refused(api: Space) -> None:
    wrong = jobset("a", ttlSecondsAfterFinished="soon")
    refused = api.post("jobsets", wrong, 400)  # JobSet's webhook cannot read it
    assert "cannot unmarshal string into Go struct field" in refused["message"]
    assert "reason" not in refused
    refused = api.apply("jobsets", wrong, code=500)
    assert ".spec.ttlSecondsAfterFinished: expected numeric (int or float), got string" in refused["message"]
    refused = api.apply("jobsets", jobset("a", bogus=1), code=500)
    assert refused["message"].endswith(".spec.bogus: field not declared in schema")
    refused = api.post("localqueues", kueue("LocalQueue", "a", clusterQueue=1), 422)
    assert 'spec.clusterQueue in body must be of type string: "integer"' in refused["message"]
    refused = api.post("configmaps", {**config_map("a"), "data": {"x": 1}}, 400)
    assert (
        "cannot unmarshal number into Go struct field ConfigMap.data.x of type string" in refused["message"]
    )


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("a" * 44, 422, "pod names generated for this JobSet will exceed 63 characters"),
        ("1abc", 422, "a DNS-1035 label must"),
        ("a.b", 422, "a DNS-1035 label must"),
        ("A", 422, "a lowercase RFC 1123 subdomain must"),
    ],
)
def test_jobset_names_have_the_limits_of_what_is_made_of_them(
    api: Space, name: str, code: int, words: str
) -> None:
    assert words in api.post("jobsets", jobset(name, suspend=True), code)["message"]
    api.post("jobsets", jobset("a" * 43, suspend=True), dryRun="All")


def test_fixed_fields_of_a_jobset_cannot_change(api: Space) -> None:
    api.post("jobsets", jobset("a", suspend=True))
    refused = api.patch("jobsets", "a", {"spec": {"failurePolicy": {"maxRestarts": 3}}}, code=422)
    assert "Value is immutable" in refused["message"]
    api.patch("jobsets", "a", {"spec": {"ttlSecondsAfterFinished": 3}})
    jobs = [{**jobset("a")["spec"]["replicatedJobs"][0], "replicas": 5}]
    assert api.patch("jobsets", "a", {"spec": {"replicatedJobs": jobs}}, code=422)["reason"] == "Invalid"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}},
            "name 'x' does not appear in",
        ),
        ({"successPolicy": {"operator": "Some"}}, "some validation rules were not checked"),
        ({"failurePolicy": {"rules": [{"name": "x-", "action": "FailJobSet"}]}}, "rule name 'x-'"),
        ({"failurePolicy": {"rules": [{"action": "Stop"}]}}, 'Unsupported value: "Stop"'),
        ({"coordinator": {"replicatedJob": "nope"}}, "coordinator replicatedJob nope does not exist"),
        ({"network": {"subdomain": "a" * 64}}, "must be less than 63 characters"),
        ({"ttlSecondsAfterFinished": -1}, "should be greater than or equal to 0"),
    ],
)
def test_what_a_jobset_cannot_be_is_invalid(api: Space, given: Obj, words: str) -> None:
    assert words in api.post("jobsets", jobset("a", **given), 422)["message"]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"name": "A"}, "a lowercase RFC 1123 label must"),
        ({"name": ""}, "name: Required value"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, 'volumeMounts[0].name: Not found: "x"'),
        ({"imagePullPolicy": "Often"}, 'Unsupported value: "Often"'),
        (
            {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}},
            "less than or equal to cpu limit of 1",
        ),
        ({"resources": {"limits": {"google.com/tpu": "1.5"}}}, '"1500m": must be an integer'),
    ],
)
def test_what_a_container_cannot_be_is_invalid(api: Space, container: Obj, words: str) -> None:
    wrong = pod("a")
    wrong["spec"]["containers"][0] |= container
    assert words in api.post("pods", wrong, 422)["message"]


def test_amounts_come_back_as_the_server_writes_them(api: Space) -> None:
    given = pod("a", nodeSelector={"no": "where"})
    limits = {"memory": "4096Mi", "cpu": "0.5", "ephemeral-storage": "1536Mi", "google.com/tpu": 4}
    given["spec"]["containers"][0]["resources"] = {"limits": limits}
    made = api.post("pods", given)["spec"]["containers"][0]["resources"]
    as_written = {"memory": "4Gi", "cpu": "500m", "ephemeral-storage": "1536Mi", "google.com/tpu": "4"}
    assert made == {"limits": as_written, "requests": as_written}
    given["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "much"}}
    assert "quantities must match" in api.post("pods", given, 400)["message"]


def test_hardly_anything_of_a_pod_can_change(api: Space) -> None:
    api.post("pods", pod("a", nodeSelector={"no": "where"}))
    variable = {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]}}
    refused = api.patch("pods", "a", variable, "strategic-merge-patch+json", 422)
    assert "pod updates may not change fields other than" in refused["message"]
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    api.patch("pods", "a", image, "strategic-merge-patch+json")


def test_what_a_list_may_ask_for(api: Space) -> None:
    assert "invalid resource version" in api.get("pods", code=400, resourceVersion="x")["message"]
    assert "Too large resource version" in api.get("pods", code=504, resourceVersion="99999999")["message"]
    api.get("pods", code=422, resourceVersionMatch="Exact")


def test_an_older_version_of_kueue_is_served_with_a_warning(api: Space) -> None:
    api.post("clusterqueues", cluster_queue("old"))
    response = api.http.get("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/old")
    assert response.json()["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert "kueue.x-k8s.io/v1beta1 ClusterQueue is deprecated" in response.headers["warning"]
    api.delete("clusterqueues", "old")


def test_discovery_lists_what_is_served_and_what_a_definition_adds(api: Space) -> None:
    listed = told(api.http.get("/apis/jobset.x-k8s.io/v1alpha2"), 200)["resources"]
    assert {one["name"] for one in listed} == {"jobsets", "jobsets/status"}
    assert api.http.get("/apis/example.com/v1").text == "404 page not found\n"
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    }
    meta = {"name": "things.example.com"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
    }
    unshaped = {**spec, "versions": [{"name": "v1", "served": True, "storage": True}]}
    api.post("customresourcedefinitions", {**definition, "spec": unshaped}, 422)
    api.post("customresourcedefinitions", {**definition, "spec": spec})
    assert told(api.http.get("/apis/example.com/v1"), 200)["resources"][0]["kind"] == "Thing"
    path = f"/apis/example.com/v1/namespaces/{api.space}/things"
    told(api.http.post(path, json={**kueue("Thing", "x", size=3), "apiVersion": "example.com/v1"}), 201)
    assert told(api.http.get(f"{path}/x"), 200)["spec"] == {"size": 3}
    api.delete("customresourcedefinitions", "things.example.com")
    api.gone("customresourcedefinitions", "things.example.com")
    assert api.http.get(path).status_code == 404


def test_a_namespace_that_ends_takes_everything_along_and_takes_nothing_new(api: Space) -> None:
    other = Space(str(api.http.base_url), "ending")
    other.post("namespaces", namespace("ending"))
    other.post(
        "configmaps", {**config_map("a"), "metadata": {"name": "a", "finalizers": ["example.com/keep"]}}
    )
    other.post("configmaps", config_map("b"))
    other.delete("namespaces", "ending")
    other.gone("configmaps", "b")
    assert "because it is being terminated" in other.post("configmaps", config_map("c"), 403)["message"]
    other.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    other.gone("namespaces", "ending")
