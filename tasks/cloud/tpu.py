"""Cloud TPU in one project: nodes and queued resources, typed, with own retries, timeouts and errors.

Mutating calls are safe to lose the reply of: create looks by exact name whose it is, delete takes "gone" for done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tasks.cloud.timing import Timing, pauses
from tasks.cloud.tpu_errors import (
    AlreadyExists,
    Busy,
    NotFound,
    Throttled,
    TpuError,
    Unavailable,
    Vanished,
    error_for,
)
from tasks.cloud.tpu_model import (
    Node,
    NodeRequest,
    Operation,
    Queued,
    QueuedRequest,
    node_message,
    node_of,
    operation_of,
    queued_message,
    queued_of,
)
from tasks.cloud.tpu_naming import Made, ours
from tasks.cloud.tpu_transport import client, retry, told
from tasks.cloud.waits import tried

ALL_ZONES = "-"
Seen = TypeVar("Seen")


class CloudTpu:
    """The API of one project. Methods raise TpuError; NotFound only when the service says that it is not there."""

    def __init__(self, project: str, *, timing: Timing | None = None) -> None:
        self.project = project
        self._timing = timing or Timing()

    # What is there

    def nodes(self, zone: str = ALL_ZONES) -> Sequence[Node]:
        """Returns the nodes of a zone, or of all. Raises Unavailable when a zone was left out of the answer."""
        pages = self._read(
            f"list TPU VMs in {self._where(zone)}", client().list_nodes, parent=self._parent(zone)
        )
        return [node_of(message) for message in self._all(pages, "nodes", zone)]

    def queued(self, zone: str = ALL_ZONES) -> Sequence[Queued]:
        """Returns the queued resources of a zone, or of all, as `nodes` does."""
        call = client().list_queued_resources
        pages = self._read(f"list queued resources in {self._where(zone)}", call, parent=self._parent(zone))
        return [queued_of(message) for message in self._all(pages, "queued_resources", zone)]

    def node(self, zone: str, name: str) -> Node:
        """Returns a node by its exact name."""
        full = self._node_name(zone, name)
        return node_of(self._read(f"look at TPU VM {name} in {zone}", client().get_node, name=full))

    def queued_resource(self, zone: str, name: str) -> Queued:
        """Returns a queued resource by its exact name."""
        full = self._queued_name(zone, name)
        doing = f"look at queued resource {name} in {zone}"
        return queued_of(self._read(doing, client().get_queued_resource, name=full))

    def types(self, zone: str) -> Sequence[str]:
        """Returns the accelerator types that a zone offers."""
        call, parent = client().list_accelerator_types, self._parent(zone)
        with told(f"list the TPU types of {zone}", self._timing.longest_s):
            return [message.type_ for message in self._read("", call, parent=parent)]

    def runtime_versions(self, zone: str) -> Sequence[str]:
        """Returns the runtime versions that a zone offers."""
        call, parent = client().list_runtime_versions, self._parent(zone)
        with told(f"list the runtime versions of {zone}", self._timing.longest_s):
            return [message.version for message in self._read("", call, parent=parent)]

    def guests(self, zone: str, name: str, path: str = "hostkeys/") -> Sequence[Mapping[str, str]]:
        """Returns, per worker that told so far, what it says of itself, by default its SSH host keys by their types."""
        from google.cloud import tpu_v2

        request = tpu_v2.GetGuestAttributesRequest(name=self._node_name(zone, name), query_path=path)
        answer = self._read(
            f"read the guest attributes of {name}", client().get_guest_attributes, request=request
        )
        return [
            {item.key: item.value for item in worker.query_value.items} for worker in answer.guest_attributes
        ]

    # What is made and unmade

    def create_node(self, zone: str, name: str, request: NodeRequest) -> Node:
        """Asks for a node and returns it as it then stands: CREATING. One of the same lease and name is returned.

        Raises AlreadyExists when the name is somebody else's, Going while what has it is being deleted,
        QuotaExhausted, Refused, PermissionDenied.
        That the zone has no room shows now (StockedOut) or later: the node vanishes, and `why_gone` tells.
        """
        node = node_message(request, queued=False)
        parent = self._parent(zone)
        return self._create(
            f"make TPU VM {name} ({request.type}) in {zone}",
            lambda timeout: client().create_node(
                parent=parent, node_id=name, node=node, retry=None, timeout=timeout
            ),
            lambda: self.node(zone, name),
            lambda: self.why_gone(zone, name),
            request.labels,
        )

    def create_queued(self, zone: str, name: str, request: QueuedRequest) -> Queued:
        """Asks for a queued resource and returns it as it then stands. Otherwise as `create_node`."""
        parent = self._parent(zone)
        message = queued_message(request, parent)
        return self._create(
            f"queue {request.slices} x {request.node.type} as {name} in {zone}",
            lambda timeout: client().create_queued_resource(
                parent=parent,
                queued_resource_id=name,
                queued_resource=message,
                retry=None,
                timeout=timeout,
            ),
            lambda: self.queued_resource(zone, name),
            lambda: self.why_gone(zone, name),
            request.node.labels,
        )

    def delete_node(self, zone: str, name: str) -> None:
        """Asks a node to go, without waiting. One that is gone or going is no error."""
        full = self._node_name(zone, name)
        self._delete(
            f"delete TPU VM {name} in {zone}",
            lambda timeout: client().delete_node(name=full, retry=None, timeout=timeout),
            lambda: self.node(zone, name).state,
        )

    def delete_queued(self, zone: str, name: str) -> None:
        """Asks a queued resource and its nodes to go, without waiting. One that is gone or going is no error."""
        from google.cloud import tpu_v2

        request = tpu_v2.DeleteQueuedResourceRequest(name=self._queued_name(zone, name), force=True)
        self._delete(
            f"delete queued resource {name} in {zone}",
            lambda timeout: client().delete_queued_resource(request=request, retry=None, timeout=timeout),
            lambda: self.queued_resource(zone, name).state,
        )

    def set_metadata(
        self, zone: str, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Changes a node's metadata. `change` gets what is there and may be called again, when others change it too."""
        from google.cloud import tpu_v2
        from google.protobuf import field_mask_pb2

        for pause in pauses(self._timing, f"tpu: change the metadata of TPU VM {name}"):
            node = self.node(zone, name)
            wanted = change(node.metadata)
            if dict(wanted) == dict(node.metadata):
                return
            message = tpu_v2.Node(name=self._node_name(zone, name), metadata=dict(wanted))
            mask = field_mask_pb2.FieldMask(paths=["metadata"])
            try:
                with told(f"change the metadata of TPU VM {name}", self._timing.try_s):
                    client().update_node(
                        node=message, update_mask=mask, retry=None, timeout=self._timing.try_s
                    )
                    return
            except (Busy, Unavailable):
                if pause is None:
                    raise
                time.sleep(pause)

    def why_gone(self, zone: str, name: str) -> TpuError:
        """Returns why something that was being made is not there, as far as the newest operation on it tells."""
        doing = f"make {name} in {zone}"
        vanished = f"cannot {doing}: it vanished while it was being made"
        try:
            made = [one for one in self._operations(zone) if one.verb == "create" and one.name == name]
        except TpuError as error:
            return Vanished(f"{vanished}, and why cannot be told: {error}")
        newest = max(made, key=lambda one: one.begun_at, default=None)
        if newest is None or not newest.code:  # one of its name that failed before says nothing about this
            return Vanished(f"{vanished}, and no operation says why")
        return error_for(newest.code, newest.error, doing)

    # How calls are made

    def _read(self, doing: str, call: Callable[..., Any], **fields: Any) -> Any:
        """Makes a call that changes nothing, as often as it takes."""
        with told(doing, self._timing.longest_s):
            return call(retry=retry(self._timing), timeout=self._timing.try_s, **fields)

    def _all(self, pager: Any, field: str, zone: str) -> list[Any]:
        found = []
        with told(f"list {field} in {self._where(zone)}", self._timing.longest_s):
            for page in pager.pages:
                found += getattr(page, field)
                if page.unreachable:
                    raise Unavailable(
                        f"cannot list {field}: {', '.join(page.unreachable)} did not answer, and what is there "
                        "is not known: ask again later"
                    )
        return found

    def _create(
        self,
        doing: str,
        ask: Callable[[float], object],
        look: Callable[[], Made],
        why_gone: Callable[[], TpuError],
        labels: Mapping[str, str],
    ) -> Made:
        went = False
        for pause in pauses(self._timing, f"tpu: {doing}"):
            try:
                with told(doing, self._timing.try_s):
                    ask(self._timing.try_s)
            except AlreadyExists as error:
                there = _unless_missing(look)
                if there is not None:
                    return ours(there, labels, error)
                # It went this moment, or what stands in the way is a node of the name: the second answer tells.
                if went or pause is None:
                    raise
                went = True
            except Unavailable as error:
                if not isinstance(error, Throttled):
                    there = _unless_missing(look)
                    if there is not None:
                        return ours(there, labels, error)
                if pause is None:
                    raise
                tried(str(error))
                time.sleep(pause)
            else:
                try:
                    return look()
                except NotFound as error:  # it was accepted, and is gone already
                    raise why_gone() from error
        raise AssertionError("the last pause is None")

    def _delete(self, doing: str, ask: Callable[[float], object], state: Callable[[], str]) -> None:
        try:
            with told(doing, self._timing.try_s):
                ask(self._timing.try_s)
        except NotFound:
            return
        except (Busy, Unavailable):
            standing = _unless_missing(state)
            if standing not in (None, "DELETING"):
                raise

    def _operations(self, zone: str) -> Sequence[Operation]:
        """Returns the operations of a zone, from all pages, in no order that could be relied on."""
        from google.longrunning import operations_pb2

        found: list[Operation] = []
        request = operations_pb2.ListOperationsRequest(name=self._parent(zone))
        with told(f"list the operations in {zone}", self._timing.longest_s):
            while True:
                answer = client().list_operations(
                    request, retry=retry(self._timing), timeout=self._timing.try_s
                )
                found += [operation_of(message) for message in answer.operations]
                if not answer.next_page_token:
                    return found
                request.page_token = answer.next_page_token

    def _parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"

    def _node_name(self, zone: str, name: str) -> str:
        return f"{self._parent(zone)}/nodes/{name}"

    def _queued_name(self, zone: str, name: str) -> str:
        return f"{self._parent(zone)}/queuedResources/{name}"

    def _where(self, zone: str) -> str:
        return f"all zones of {self.project}" if zone == ALL_ZONES else f"{zone} of {self.project}"


def _unless_missing(look: Callable[[], Seen]) -> Seen | None:
    try:
        return look()
    except NotFound:
        return None
