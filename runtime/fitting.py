"""Which points of a suite can run on the devices that are really here, and their meshes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import jax

from runtime.contract.errors import BadInput
from runtime.contract.fit import OF_THE_VENV, Backend, fit, needs
from runtime.contract.generator import Requirement
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
    return [_with_venv(_with_mesh(point, made)) for point in found.points]


def backend() -> Backend:
    """Describes the devices of all workers, as JAX sees them, and what else there is."""
    from orbax.checkpoint import multihost

    has: set[Requirement] = {"pathways"} if multihost.is_pathways_backend() else set()
    return Backend(
        platform=cast(Platform, jax.default_backend()),
        devices=jax.device_count(),
        workers=jax.process_count(),
        slices=len({getattr(device, "slice_index", 0) for device in jax.devices()}),
        has=frozenset(has),
    )


def _with_venv(fitted: Fitted) -> Fitted:
    """Says of a point that needs a package which this venv lacks that it cannot run."""
    lacking = [
        name for name in sorted(needs(fitted.point) & OF_THE_VENV) if importlib.util.find_spec(name) is None
    ]
    if not lacking or fitted.why_not is not None:
        return fitted
    return replace(fitted, why_not=f"it needs {' and '.join(lacking)}, which the venv lacks")


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
