"""GKE's API in one project: clusters, node pools and operations, typed, with own retries, timeouts and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.cloud.container_asking import Asking
from tasks.cloud.container_errors import (
    ContainerError,
    NotFound,
    Unavailable,
    error_of_operation,
)
from tasks.cloud.container_fields import Fields, message_of
from tasks.cloud.container_model import (
    Cluster,
    Operation,
    Pool,
    Versions,
    cluster_of,
    operation_of,
    versions_of,
)
from tasks.cloud.container_transport import client, retry, told
from tasks.cloud.timing import Timing

ANYWHERE = "-"


class Container:
    """The API of one project. Methods raise ContainerError; NotFound only when the service says that it is not there.

    `busy_s` is how long one waits for another's operation on a cluster, in seconds: node pools take minutes.
    """

    def __init__(self, project: str, *, timing: Timing | None = None, busy_s: float = 3600.0) -> None:
        self.project = project
        self.timing = timing or Timing()
        self._asking = Asking(self.timing, busy_s)

    # What is there

    def clusters(self, location: str = ANYWHERE) -> Sequence[Cluster]:
        """Returns the clusters of a location, or of all, with their node pools.

        Raises Unavailable when a zone was left out of the answer.
        """
        where = (
            f"all locations of {self.project}" if location == ANYWHERE else f"{location} of {self.project}"
        )
        answer = self._read(
            f"list clusters in {where}", client().list_clusters, parent=self._parent(location)
        )
        if answer.missing_zones:
            raise Unavailable(
                f"cannot list clusters: {', '.join(answer.missing_zones)} did not answer, and what is there is not "
                "known: ask again later"
            )
        return [cluster_of(self.project, message) for message in answer.clusters]

    def cluster(self, location: str, name: str) -> Cluster:
        """Returns a cluster by its exact name, with its node pools."""
        doing = f"look at cluster {name} in {location}"
        return cluster_of(
            self.project, self._read(doing, client().get_cluster, name=self._cluster(location, name))
        )

    def pool(self, location: str, cluster: str, name: str) -> Pool:
        """Returns a node pool by its exact name."""
        # A pool's own message does not name its cluster's id.
        there = self.cluster(location, cluster).pool(name)
        if there is None:
            raise NotFound(f"there is no node pool {name} in cluster {cluster} in {location}")
        return there

    def versions(self, location: str) -> Versions:
        """Returns the versions of GKE that a location offers."""
        name = f"{self._parent(location)}/serverConfig"
        doing = f"ask for the versions of GKE in {location}"
        return versions_of(self._read(doing, client().get_server_config, name=name))

    def operation(self, location: str, name: str) -> Operation:
        """Returns an operation as it stands."""
        full = f"{self._parent(location)}/operations/{name}"
        return operation_of(self._read(f"look at {name}", client().get_operation, name=full))

    def operations(self, location: str, cluster: str) -> Sequence[Operation]:
        """Returns the operations on a cluster and its pools, as far back as the service remembers, newest first."""
        doing = f"list the operations in {location}"
        answer = self._read(doing, client().list_operations, parent=self._parent(location))
        found = [operation_of(message) for message in answer.operations]
        return sorted(
            (one for one in found if one.cluster == cluster), key=lambda one: one.begun_at, reverse=True
        )

    # What is made and unmade

    def create_cluster(self, location: str, request: Fields) -> tuple[Cluster, str]:
        """Asks for a cluster; returns it as it then stands, and the name of the operation that makes it.

        One of the same lease and name is returned, with its operation as far as that is known (else empty).
        Raises AlreadyExists when the name is somebody else's, QuotaExhausted, Refused, PermissionDenied.
        """
        name, message = request["name"], message_of("cluster", request)
        parent = self._parent(location)
        return self._asking.create(
            f"make cluster {name} in {location}",
            lambda timeout: client().create_cluster(
                request={"parent": parent, "cluster": message}, retry=None, timeout=timeout
            ),
            lambda: self.cluster(location, name),
            request.get("resource_labels", {}),
            lambda: self._making(location, name, "CREATE_CLUSTER"),
        )

    def create_pool(self, location: str, cluster: str, request: Fields) -> tuple[Pool, str]:
        """Asks for a node pool, once no other operation is under way. Otherwise as `create_cluster`."""
        name, message = request["name"], message_of("pool", request)
        parent = self._cluster(location, cluster)
        return self._asking.create(
            f"make node pool {name} of cluster {cluster} in {location}",
            lambda timeout: client().create_node_pool(
                request={"parent": parent, "node_pool": message}, retry=None, timeout=timeout
            ),
            lambda: self.pool(location, cluster, name),
            request.get("config", {}).get("resource_labels", {}),
            lambda: self._making(location, cluster, "CREATE_NODE_POOL", name),
        )

    def delete_cluster(self, location: str, name: str) -> None:
        """Asks a cluster and all of its pools to go, without waiting. One that is gone or going is no error.

        Raises Busy while another operation is under way on it: ask again.
        """
        full = self._cluster(location, name)
        self._asking.delete(
            f"delete cluster {name} in {location}",
            lambda timeout: client().delete_cluster(name=full, retry=None, timeout=timeout),
            lambda: self.cluster(location, name).state,
        )

    def delete_pool(self, location: str, cluster: str, name: str) -> None:
        """Asks a node pool to go, without waiting. One that is gone or going is no error. Raises Busy as above."""
        full = f"{self._cluster(location, cluster)}/nodePools/{name}"
        self._asking.delete(
            f"delete node pool {name} of cluster {cluster} in {location}",
            lambda timeout: client().delete_node_pool(name=full, retry=None, timeout=timeout),
            lambda: self.pool(location, cluster, name).state,
        )

    def resize_pool(self, location: str, cluster: str, name: str, nodes: int) -> str:
        """Asks a node pool to have so many nodes per zone; returns the operation. Asking twice changes nothing."""
        full = f"{self._cluster(location, cluster)}/nodePools/{name}"

        def ask() -> str:
            with told(f"resize node pool {name} of cluster {cluster} to {nodes} nodes", self.timing.try_s):
                return str(
                    client()
                    .set_node_pool_size(
                        request={"name": full, "node_count": nodes},
                        retry=None,
                        timeout=self.timing.try_s,
                    )
                    .name
                )

        return self._asking.until_free(ask)

    def set_labels(
        self, location: str, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Changes a cluster's labels. `change` gets what is there and may be called again: others change them too."""

        def ask() -> None:
            there = self.cluster(location, name)
            wanted = dict(change(there.labels))
            if wanted == dict(there.labels):
                return
            with told(f"change the labels of cluster {name}", self.timing.try_s):
                client().set_labels(
                    request={
                        "name": self._cluster(location, name),
                        "resource_labels": wanted,
                        "label_fingerprint": there.fingerprint,
                    },
                    retry=None,
                    timeout=self.timing.try_s,
                )

        self._asking.until_free(ask)

    def why(self, location: str, cluster: str, pool: str = "") -> ContainerError | None:
        """Returns with what the making of a cluster or pool ended, as far as the newest operation on it tells."""
        kind = "CREATE_NODE_POOL" if pool else "CREATE_CLUSTER"
        name = self._making(location, cluster, kind, pool)
        operation = self.operation(location, name) if name else None
        if operation is None or not operation.done or not (operation.code or operation.error):
            return None
        return failure_of(operation)

    # How calls are made

    def _read(self, doing: str, call: Callable[..., Any], **fields: Any) -> Any:
        """Makes a call that changes nothing, as often as it takes."""
        with told(doing, self.timing.longest_s):
            return call(request=fields, retry=retry(self.timing), timeout=self.timing.try_s)

    def _making(self, location: str, cluster: str, kind: str, pool: str = "") -> str:
        """Returns the newest operation that makes something of this name; empty where none is known."""
        found = [one for one in self.operations(location, cluster) if (one.type, one.pool) == (kind, pool)]
        return found[0].name if found else ""

    def _parent(self, location: str) -> str:
        return f"projects/{self.project}/locations/{location}"

    def _cluster(self, location: str, name: str) -> str:
        return f"{self._parent(location)}/clusters/{name}"


def failure_of(operation: Operation) -> ContainerError:
    """Returns the error that an operation ended with."""
    what = (
        f"node pool {operation.pool} of cluster {operation.cluster}" if operation.pool else operation.cluster
    )
    return error_of_operation(operation.code, operation.error, f"make {what}")
