"""What kind of bucket an output lies in, as its service tells whoever may look, and whoever may only list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.cloud.bucket_kind import bucket_kind
from tasks.cloud.buckets import Buckets
from tasks.cloud.google_place import region_of
from tasks.cloud.storage import open_folder
from tests.cloud.container.running import Gke

LOOK, LIST = "storage.buckets.get", "storage.objects.list"


@pytest.mark.parametrize(
    ("forbidden", "told"),
    [([], "NEARLINE us-east5"), ([LOOK], "NEARLINE us-east5"), ([LOOK, LIST], "NEARLINE")],
)
def test_class_and_place_are_told_as_far_as_one_may_ask(
    project: Gke, forbidden: list[str], told: str
) -> None:
    Buckets().make("proj", "mine", {"location": "US-EAST5", "storageClass": "NEARLINE"}, {})
    folder = open_folder("gs://mine/runs/run-1")
    folder.write("stages/build.json", b"{}")
    project.set(forbidden=forbidden)
    assert bucket_kind(folder) == told


def test_who_may_ask_nothing_of_an_empty_one_is_told_nothing(project: Gke, tmp_path: Path) -> None:
    Buckets().make("proj", "mine", {"location": "US-EAST5"}, {})
    project.set(forbidden=[LOOK, LIST])
    assert bucket_kind(open_folder("gs://mine/runs")) is None
    assert bucket_kind(open_folder(str(tmp_path))) is None


@pytest.mark.parametrize(
    ("place", "region"),
    [("us-east5-b", "us-east5"), ("us-east5", "us-east5"), ("us-central1-ai1a", "us-central1"), ("", "")],
)
def test_a_zone_is_in_a_region(place: str, region: str) -> None:
    assert region_of(place) == region
