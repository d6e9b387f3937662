"""Fields of the API that users pass through by their path: put in where they belong, refused where there is none."""

from __future__ import annotations

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_fields import Kind, message_of, with_fields


def test_they_are_put_in_beside_what_is_there() -> None:
    request = {"name": "x", "network_config": {"enable_intra_node_visibility": True}}
    more = {
        "network_config.datapath_provider": "ADVANCED_DATAPATH",
        "addons_config.gcs_fuse_csi_driver_config.enabled": "true",
        "locations": "[us-east5-a, us-east5-b]",
    }
    changed = with_fields("cluster", request, more, "--cluster-field")
    assert changed["network_config"] == {
        "enable_intra_node_visibility": True,
        "datapath_provider": "ADVANCED_DATAPATH",
    }
    assert request["network_config"] == {"enable_intra_node_visibility": True}
    message = message_of("cluster", changed)
    assert message.addons_config.gcs_fuse_csi_driver_config.enabled
    assert list(message.locations) == ["us-east5-a", "us-east5-b"]
    labelled = with_fields("pool", {}, {"config.labels.team": "a"}, "--pool-field")
    assert labelled == {"config": {"labels": {"team": "a"}}}


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        (
            "cluster",
            "networkconfig.x",
            "1",
            "Cluster has no field 'networkconfig', did you mean 'network_config'?",
        ),
        ("pool", "config.spott", "true", r"config \(NodeConfig\) has no field 'spott', did you mean 'spot'?"),
        ("pool", "config.spot.x", "1", "config.spot has no fields of its own"),
        ("pool", "config.spot", "7", "--field config.spot: '7' does not fit there"),
        ("cluster", "release_channel.channel", "FASTEST", "--field release_channel.channel: .FASTEST"),
        ("cluster", "name", "y", "set by slicebench itself"),
        ("pool", "config.resource_labels.slicebench-lease", "y", "set by slicebench itself"),
        ("pool", "config.tags", "[a", "is no value"),
    ],
)
def test_what_the_api_does_not_have_is_refused(kind: Kind, path: str, value: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        with_fields(kind, {}, {path: value}, "--field")
