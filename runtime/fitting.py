"""Which points of a suite can run on the devices that are really here, and their meshes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import jax

from runtime.contract.errors import BadInput
from runtime.contract.fit import Backend, fit
from runtime.contract.generators import Requirement
from runtime.contract.job import Platform
from runtime.contract.suite import MeshSpec, Point
from runtime.mesh import make_mesh


@dataclass(frozen=True)
class Fitted:
    """A point that fits, with its mesh; `why_not` says why the mesh cannot be made after all, or None."""

    point: Point
    mesh: jax.sharding.Mesh | None
    why_not: str | None = None


def fit_here(points: Sequence[Point]) -> list[Fitted]:
    """Returns the points that can run here, numbered anew as contract.fit does; tells what it leaves out.

    Raises:
      BadInput: no point is left: then nothing would run, and that must not look like success.
    """
    found = fit(points, backend())
    if not found.points:
        raise BadInput(found.problems)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    made: dict[str, Fitted] = {}
    return [_with_mesh(point, made) for point in found.points]


def backend() -> Backend:
    """Describes the devices of all workers, as JAX sees them, and what else there is."""
    from orbax.checkpoint import multihost

    has = {name for name in ("cloudpickle", "torch") if importlib.util.find_spec(name) is not None}
    if multihost.is_pathways_backend():
        has.add("pathways")
    return Backend(
        platform=cast(Platform, jax.default_backend()),
        devices=jax.device_count(),
        workers=jax.process_count(),
        slices=len({getattr(device, "slice_index", 0) for device in jax.devices()}),
        has=frozenset(cast("set[Requirement]", has)),
    )


def _with_mesh(point: Point, made: dict[str, Fitted]) -> Fitted:
    if point.mesh is None:
        return Fitted(point, None)
    name = str(point.mesh)
    if name not in made:
        made[name] = _make(point, point.mesh)
    return Fitted(point, made[name].mesh, made[name].why_not)


def _make(point: Point, spec: MeshSpec) -> Fitted:
    try:
        return Fitted(point, make_mesh(spec))
    except (ValueError, NotImplementedError, AssertionError) as error:
        return Fitted(point, None, f"its mesh cannot be laid over the devices: {error}")
