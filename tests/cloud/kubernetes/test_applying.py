"""Shows server-side apply: merging, managers, conflicts, fields that are given up, and nulls that are refused."""

from __future__ import annotations

from tests.cloud.kubernetes.manifests import config_map, jobset, pod
from tests.cloud.kubernetes.space import Space


def test_it_makes_merges_and_says_who_manages_what(api: Space) -> None:
    made = api.apply("configmaps", config_map("a", x="1"), code=201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == (
        "us",
        "Apply",
        {"f:data": {"f:x": {}}},
    )
    api.apply("configmaps", config_map("a", {"app": "b"}, y="2"), "them")
    assert api.get("configmaps", "a")["data"] == {"x": "1", "y": "2"}


def test_the_same_again_changes_nothing(api: Space) -> None:
    first = api.apply("configmaps", config_map("a", x="1"), code=201)
    again = api.apply("configmaps", config_map("a", x="1"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_field_that_is_named_no_more_goes_unless_another_holds_it(api: Space) -> None:
    api.apply("configmaps", config_map("a", x="1", y="1", z="1"), code=201)
    api.apply("configmaps", config_map("a", y="1"), "them")
    assert api.apply("configmaps", config_map("a", z="1"))["data"] == {"y": "1", "z": "1"}


def test_anothers_field_is_a_conflict_unless_forced(api: Space) -> None:
    api.apply("configmaps", config_map("a", x="1"), code=201)
    refused = api.apply("configmaps", config_map("a", x="2"), "them", 409)
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "us": .data.x'
    assert refused["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert api.apply("configmaps", config_map("a", x="2"), "them", force="true")["data"] == {"x": "2"}
    assert api.apply("configmaps", config_map("a"))["data"] == {"x": "2"}


def test_what_a_patch_changed_is_the_patchers(api: Space) -> None:
    api.apply("configmaps", config_map("a", x="1"), code=201)
    api.patch("configmaps", "a", {"data": {"x": "2"}}, fieldManager="editor")
    refused = api.apply("configmaps", config_map("a", x="1"), code=409)
    assert 'conflict with "editor" using v1: .data.x' in refused["message"]


def test_entries_of_keyed_lists_are_merged_one_by_one(api: Space) -> None:
    inside = pod("a")["spec"]
    inside["containers"][0]["env"] = [{"name": "X", "value": "1"}]
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    api.apply("deployments", {**made, "spec": {"template": {"spec": inside}}}, code=201)
    more = {"containers": [{"name": "main", "image": "img:1", "env": [{"name": "Y", "value": "2"}]}]}
    added = api.apply("deployments", {**made, "spec": {"template": {"spec": more}}}, "them")
    (container,) = added["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == ["X", "Y"]
    assert container["command"][0] == "python"


def test_a_manager_must_be_named(api: Space) -> None:
    refused = api.patch("configmaps", "a", config_map("a"), "apply-patch+yaml", 422)
    assert "fieldManager: Required value: is required for apply patch" in refused["message"]


def test_nulls_in_custom_objects_are_refused_that_a_create_drops(api: Space) -> None:
    made = jobset(
        "a", suspend=True, pod={"serviceAccountName": None, "nodeSelector": None, "tolerations": None}
    )
    refused = api.apply("jobsets", made, code=422)["message"]
    at = "spec.replicatedJobs[0].template.spec.template.spec"
    for field, kind in (
        ("serviceAccountName", "string"),
        ("nodeSelector", "object"),
        ("tolerations", "array"),
    ):
        assert f'{at}.{field} in body must be of type {kind}: "null"' in refused
    template = api.post("jobsets", made)["spec"]["replicatedJobs"][0]["template"]
    assert "nodeSelector" not in template["spec"]["template"]["spec"]


def test_a_dry_apply_writes_nothing(api: Space) -> None:
    api.apply("configmaps", config_map("a", x="1"), code=201, dryRun="All")
    api.get("configmaps", "a", 404)
