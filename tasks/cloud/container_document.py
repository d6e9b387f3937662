"""A cluster of GKE as its API has it, whole: what fields of it are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.cloud.container_errors import NotFound
from tasks.cloud.container_transport import client, retry, told
from tasks.cloud.timing import Timing


def document(project: str, location: str, name: str, timing: Timing) -> Mapping[str, Any] | None:
    """Returns a cluster with its node pools as plain data, named as in the API; None: there is none."""
    from google.protobuf.json_format import MessageToDict

    full = f"projects/{project}/locations/{location}/clusters/{name}"
    try:
        with told(f"look at cluster {name} in {location}", timing.longest_s):
            message = client().get_cluster(request={"name": full}, retry=retry(timing), timeout=timing.try_s)
    except NotFound:
        return None
    found: Mapping[str, Any] = _named(
        MessageToDict(type(message).pb(message), preserving_proto_field_name=True)
    )
    return found


def _named(told: Any) -> Any:
    """Returns data with the API's names: the library calls some fields otherwise (`type_`), as Python has the word."""
    if isinstance(told, dict):
        return {name.removesuffix("_"): _named(value) for name, value in told.items()}
    return [_named(one) for one in told] if isinstance(told, list) else told
