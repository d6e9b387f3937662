"""Things of Compute Engine over the stand-in: what is changed in several calls."""

from __future__ import annotations

import pytest

from tasks.cloud.container_errors import Busy
from tasks.cloud.google_rest import Rest
from tasks.cloud.things import OfCompute
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke


def test_a_subnetwork_that_grew_takes_more_ranges_in_the_same_breath(project: Gke) -> None:
    compute = Rest("compute.googleapis.com", timing=QUICK)
    OfCompute("networks", (), compute).make("proj", "net", {}, {})
    sort = OfCompute("subnetworks", (), compute)
    fields = {"network": "projects/proj/global/networks/net", "ipCidrRange": "10.0.0.0/24"}
    sort.make("proj/us-east5", "sub", fields, {})
    there = sort.look("proj/us-east5", "sub")
    assert there is not None
    pods = [{"rangeName": "pods", "ipCidrRange": "10.1.0.0/24"}]
    sort.change("proj/us-east5", "sub", {"ipCidrRange": "10.0.0.0/20", "secondaryIpRanges": pods}, there)
    now = sort.look("proj/us-east5", "sub")
    assert now is not None
    assert (now.fields["ipCidrRange"], now.fields["secondaryIpRanges"]) == ("10.0.0.0/20", pods)


def test_what_others_have_in_the_same_list_stays_also_where_they_are_faster(project: Gke) -> None:
    compute = Rest("compute.googleapis.com", timing=QUICK)
    OfCompute("networks", (), compute).make("proj", "net", {}, {})
    sort, network = OfCompute("subnetworks", (), compute), "projects/proj/global/networks/net"
    theirs = {"rangeName": "of-others", "ipCidrRange": "10.1.0.0/24"}
    fields = {"network": network, "ipCidrRange": "10.0.0.0/24", "secondaryIpRanges": [theirs]}
    sort.make("proj/us-east5", "sub", fields, {})
    there = sort.look("proj/us-east5", "sub")
    assert there is not None
    project.set(fingerprint_conflicts=2)
    pods = {"rangeName": "pods", "ipCidrRange": "10.2.0.0/24"}
    sort.change("proj/us-east5", "sub", {"secondaryIpRanges": [pods]}, there)
    now = sort.look("proj/us-east5", "sub")
    assert now is not None and now.fields["secondaryIpRanges"] == [theirs, pods]
    stale = {"secondaryIpRanges": [pods], "fingerprint": there.fields["fingerprint"]}
    with pytest.raises(Busy, match="Invalid fingerprint"):
        compute.send("PATCH", "change it", "compute/v1/projects/proj/regions/us-east5/subnetworks/sub", stale)
