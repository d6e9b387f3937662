"""`slicebench tpu update` and `tpu discover`: new code on the workers of a TPU, and who they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli import tpu
from flows.cli.said import Json, print_json, say
from flows.cli.tpu import Name, Project, Zone
from flows.cli.tpu_workers import AS_MADE, LoginFlags
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.stages.tpu_update import Updated
    from tasks.stages.tpu_workers import Place


def update(
    name: Name,
    /,
    *,
    repo: Annotated[
        str | None, Parameter(help="Repository to fetch from, a fork say; else Orbax's own")
    ] = None,
    branch: Annotated[str | None, Parameter(help="… its branch")] = None,
    pr: Annotated[int | None, Parameter(help="… its pull request")] = None,
    commit: Annotated[str | None, Parameter(help="… its commit")] = None,
    jax_version: Annotated[
        str, Parameter(help="newest, nightly or x.y.z; locked: as it is there")
    ] = "locked",
    jax_index: Annotated[str | None, Parameter(help="URL of the package index of JAX nightlies")] = None,
    setup: Annotated[
        tuple[str, ...], Parameter(negative="", help="Script that workers run first, once (repeat the flag)")
    ] = (),
    locks: Annotated[str, Parameter(help="How long that waits for apt's locks")] = "300s",
    python: Annotated[str, Parameter(help="Python on the workers that is to import it")] = "",
    folder: Annotated[str, Parameter(help="Folder of slicebench on the workers; the clone is in it")] = "",
    discard: Annotated[
        bool, Parameter(negative="", help="Throw away changes made in the clone there")
    ] = False,
    login: LoginFlags = AS_MADE,
    zone: Zone = None,
    project: Project = None,
    json: Json = False,
) -> int:
    """Bring all workers to the head of a branch, pull request or fork, detached, and make it what they import."""
    from tasks.config.as_flags import Flags
    from tasks.config.findings import checked
    from tasks.config.request import RunRequest
    from tasks.config.source import resolve_source
    from tasks.stages.tpu_update import FOLDER, PYTHON, Updated
    from tasks.stages.tpu_update import update as bring
    from tasks.stages.tpu_workers import workers

    asked = {"repo": repo, "branch": branch, "pr": pr, "commit": commit}
    asked |= {"suite": "-", "jax_version": jax_version, "jax_index": jax_index}
    source = resolve_source(checked(RunRequest, asked, Flags()))
    locks_s = int(tpu.seconds(locks, "--locks"))
    began = time.monotonic()
    places = workers(tpu.office(project), name, (zone,) if zone else (), login.chosen())
    _set_up(places, setup, locks_s)
    if setup and source.repo is None and source.jax_version == "locked":
        done = Updated(len(places))
    else:
        done = bring(places, source, python=python or PYTHON, folder=folder or FOLDER, discard=discard)
    if json:
        print_json({"name": name, "setup": list(setup), **asdict(done)})
    else:
        say(f"{_told(name, done)}, after {time.monotonic() - began:.1f} s")
    return ExitCode.DONE


def _set_up(places: Sequence[Place], scripts: Sequence[str], locks_s: int) -> None:
    """Runs scripts on all workers, in order, where they did not run yet."""
    from tasks.cloud.ssh import Pool
    from tasks.targets.tpu_setup import script_of, set_up

    pool = Pool()
    try:
        for script in scripts:
            set_up(pool, [place.endpoint for place in places], script_of(script), say, locks_s=locks_s)
    finally:
        pool.close()


def _told(name: str, done: Updated) -> str:
    """Returns what all workers have now, in words."""
    what = [f"Orbax {done.commit[:12]} ({done.ref})"] if done.commit else []
    what += [f"JAX {done.jax}"] if done.jax else []
    of = f"{counted(done.workers, 'worker')} of {name}"
    if not what:
        return f"{of} {'is' if done.workers == 1 else 'are'} set up"
    return f"{of} {'imports' if done.workers == 1 else 'import'} {' and '.join(what)}"


def discover(
    name: Name,
    /,
    *,
    login: LoginFlags = AS_MADE,
    zone: Zone = None,
    project: Project = None,
    json: Json = False,
) -> int:
    """List the workers of a TPU, and whether each can be logged in to; nothing is changed."""
    from tasks.stages.tpu_workers import run_on, workers

    places = workers(tpu.office(project), name, (zone,) if zone else (), login.chosen())
    answers = run_on(places, ["hostname"], 30.0)
    found = [
        {
            "worker": answer.place.index,
            "slice": answer.place.slice_index,
            "node": answer.place.node,
            "address": answer.place.endpoint.address,
            "hostname": answer.ran.output.decode("utf-8", "replace").strip() if answer.ran else None,
            "error": str(answer.error) if answer.error else None,
        }
        for answer in answers
    ]
    if json:
        print_json({"name": name, "workers": found})
    else:
        for one in found:
            who = one["hostname"] if one["error"] is None else f"does not let us in: {one['error']}"
            print(f"[{one['worker']}] slice {one['slice']} {one['node']} {one['address']} {who}")
    return ExitCode.INFRASTRUCTURE if any(one["error"] for one in found) else ExitCode.DONE
