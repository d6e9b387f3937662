"""Server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import bodies
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.patches import _merged
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Obj, copied

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def note(obj: Obj, call: Call, operation: str) -> None:
    """Notes who manages the fields."""
    del obj, call, operation


def apply(world: World, call: Call, told: Any) -> tuple[int, Obj, list[str]]:
    """Applies."""
    if not call.query.get("fieldManager"):
        raise Refused(
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        )
    obj = bodies.object_for(call, told)
    old = world.store.at(call.key)
    if old is None:
        return 201, world.create(call.resource.qualified, obj, dry_run=call.dry_run), []
    new = _merged(copied(old), obj)
    return 200, world.update(call.resource, new, sub=call.sub, dry_run=call.dry_run), []
