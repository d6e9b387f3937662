"""Which points of a suite a target can run: meshes against devices, and what some options need of a machine.

A suite is right or wrong by itself (suite_reader.py); whether it fits is asked once there is a target, by
`plan` and `run`, and again by the worker on the devices that are really there.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.contract.counting import counted
from runtime.contract.errors import Problem
from runtime.contract.generator import Requirement
from runtime.contract.generators import find
from runtime.contract.job import Platform
from runtime.contract.suite import MeshSpec, Point

OF_THE_VENV: frozenset[Requirement] = frozenset({"cloudpickle", "torch"})
"""What a venv has or lacks, whatever the machine. Both sides must number points alike, so fitting takes these as
there; a worker whose venv lacks one says NOT_RUN."""

_LISTED = 2
"""How many of the points that are left out for one reason are named."""


@dataclass(frozen=True)
class Backend:
    """What points run on. `devices` counts those of all workers; `has` names what else there is."""

    platform: Platform
    devices: int
    workers: int = 1
    slices: int = 1
    has: frozenset[Requirement] = frozenset()


@dataclass(frozen=True)
class Fit:
    """The points that fit, numbered anew from 0, a warning for each kind that does not, and an error if none does."""

    points: tuple[Point, ...]
    problems: tuple[Problem, ...]


def needs(point: Point) -> frozenset[Requirement]:
    """Returns what a machine must have to run a point, beyond devices for its mesh."""
    generator = find(point.generator)
    own: frozenset[Requirement] = frozenset(
        {"pathways"} if point.checkpoint.load_with_colocated_python else ()
    )
    return own | (generator.requirements(point.options) if generator else frozenset())


def devices_wanted(points: Sequence[Point]) -> int | None:
    """Returns the number of devices that most points fit on, the larger one when tied; None: any number will do."""
    counts = Counter(math.prod(point.mesh.sizes) for point in points if point.mesh is not None)
    return max(counts, key=lambda devices: (counts[devices], devices)) if counts else None


def fit(points: Sequence[Point], backend: Backend) -> Fit:
    """Returns the points that a backend can run.

    As Orbax does, a mesh that does not fit is left out with a warning; unlike Orbax, so is a point that
    needs what the backend lacks, with the reason, and when nothing is left that is an error.
    """
    reasons = [_why_unfit(point, backend) for point in points]
    fitting = [point for point, why in zip(points, reasons, strict=True) if why is None]
    unfit: dict[str, list[str]] = {}
    for point, why in zip(points, reasons, strict=True):
        if why is not None:
            unfit.setdefault(why, []).append(point.benchmark)
    problems = [
        Problem("warning", None, f"{len(names)} of {len(points)} benchmarks left out ({_listed(names)})", why)
        for why, names in unfit.items()
    ]
    if not fitting and points:
        problems = [_nothing_fits(points, reasons, backend)]
    kept = tuple(dataclasses.replace(point, index=index) for index, point in enumerate(fitting))
    return Fit(kept, tuple(problems))


def _listed(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are: labels of points are long."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _why_unfit(point: Point, backend: Backend) -> str | None:
    lacking = sorted(
        needs(point) - OF_THE_VENV - backend.has - ({"gpu"} if backend.platform == "gpu" else set())
    )
    if lacking:
        name = point.generator.rpartition(".")[2]
        return f"{name} with these options needs {' and '.join(lacking)}"
    generator = find(point.generator)
    if generator is not None and point.implementation == "native" and backend.workers < generator.workers:
        name = point.generator.rpartition(".")[2]
        return f"{name} takes {generator.workers} workers or more, the target has {backend.workers}"
    struck = point.disruption.worker if point.disruption else 0
    if isinstance(struck, int) and struck >= backend.workers:
        return f"its disruption strikes worker {struck}, and workers are numbered 0 to {backend.workers - 1}"
    return None if point.mesh is None else why_mesh_unfit(point.mesh, backend)


def why_mesh_unfit(mesh: MeshSpec, backend: Backend) -> str | None:
    """Returns why a mesh cannot be laid over a backend's devices, or None. Orbax's rules, `create_mesh`."""
    shape = " x ".join(
        f"{axis} {size}" for axis, size in zip(mesh.mesh_axes, mesh.sizes, strict=True) if size > 1
    )
    named = f"mesh {shape or 'of one device'}"
    total = math.prod(mesh.sizes)
    if total != backend.devices:
        return f"{named} takes {counted(total, 'device')}, the target has {backend.devices}"
    if mesh.dcn_parallelism is None or backend.platform == "cpu":
        return None
    dcn = math.prod(mesh.dcn_parallelism.get(axis, 1) for axis in mesh.mesh_axes)
    granules, kind = (backend.workers, "workers") if mesh.process_is_granule else (backend.slices, "slices")
    if dcn != granules:
        return f"dcn_parallelism of {named} spans {dcn} {kind}, the target has {granules}"
    return None


def _laid_out(points: Sequence[Point], backend: Backend) -> str:
    """Says how the mesh of points would be laid out on a backend; where they have several, only that it is to be."""
    mesh = points[0].mesh
    slices = 1 if backend.platform == "cpu" else backend.slices
    if mesh is None or any(point.mesh != mesh for point in points) or backend.devices % slices:
        return "change mesh_config"
    names = list(mesh.mesh_axes)
    across = names[:1] if slices > 1 and len(names) > 1 else []
    within = names[len(across) :]
    rest, sizes = backend.devices // slices, []
    for left in range(len(within), 0, -1):
        wanted = round(rest ** (1 / left))
        size = next(one for one in range(wanted, 0, -1) if rest % one == 0) if left > 1 else rest
        sizes.append(size)
        rest //= size
    if slices > 1 and not across:
        return f"change mesh_config, with dcn_parallelism over {slices} slices"
    inner = ", ".join(f"{name}: {size}" for name, size in zip(within, sizes, strict=True))
    outer = f" --set 'mesh_config.dcn_parallelism={{{across[0]}: {slices}}}'" if across else ""
    if mesh.dcn_parallelism and not across:
        outer = " --set mesh_config.dcn_parallelism=null"
    return f"lay its mesh out for this one: --set 'mesh_config.ici_parallelism={{{inner}}}'{outer}"


def _nothing_fits(points: Sequence[Point], reasons: Sequence[str | None], backend: Backend) -> Problem:
    why = "; ".join(dict.fromkeys(reason for reason in reasons if reason))
    able = [point for point in points if needs(point) <= backend.has | OF_THE_VENV]
    if any(point.mesh is not None and why_mesh_unfit(point.mesh, backend) for point in able):
        sizes = sorted({math.prod(point.mesh.sizes) for point in points if point.mesh is not None})
        told = [*map(str, sizes[:-1]), counted(sizes[-1], "device")]
        fix = f"use a target with {' or '.join(told)}, or {_laid_out(able, backend)}"
        return Problem("error", None, "no mesh fits the target", why, fix)
    return Problem(
        "error", None, "no benchmark can run on the target", why, "choose other options or another target"
    )
