"""Troubles of a workload and of the processes around it: hangs, deadlines, deaths, memory, disk, wrong data."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.contract.errors import Place
from tasks.explain.scene import Line, Scene, Seen, Trouble
from tasks.explain.told import MOST_EVIDENCE, told


def init_hang(scene: Scene) -> Trouble | None:
    """Workers wait in jax.distributed for one that does not come."""
    heard = told(
        scene,
        "init_hang",
        r"\bjoining exceeded [\d.]+ s|deadline of [\d.]+ s for init passed|Barrier timed out.{0,200}PjRT_Client_Connect"
        r"|CoordinationService/RegisterTask|Some timed out task names",
        "workers waited in jax.distributed for others",
        (f"slicebench logs {scene.run} --worker N",),
    )
    waiting = [seen for seen in scene.workers if seen.step == "joining"]
    absent = [seen for seen in scene.workers if seen.step in ("started", "exited")]
    if heard is None and (scene.ended or not waiting or not absent):
        return None
    if not waiting or not absent:
        return heard
    missing, there = _workers(absent), _workers(waiting)
    return Trouble(
        "init_hang",
        f"jax.distributed is not complete: {missing} is missing, {there} waiting",
        (*(heard.evidence if heard else ()), *(seen.line for seen in (*absent, *waiting)))[:MOST_EVIDENCE],
        (f"slicebench logs {scene.run} --worker {absent[0].worker}",),
    )


def out_of_memory(scene: Scene) -> Trouble | None:
    """Memory of the host or of a device ran out."""
    return told(
        scene,
        "out_of_memory",
        r"out-of-memory killer|ran out of memory|RESOURCE_EXHAUSTED: .{0,80}(out of memory|allocat)|\bMemoryError\b"
        r"|std::bad_alloc|oom-kill|Out of memory|killed for want of memory",
        "memory ran out",
        (
            "slicebench plan SUITE --target TARGET   # what the largest checkpoint takes",
            "dmesg -T | grep -i oom   # on the host; for a pod, memory: of the target file is its limit",
        ),
    )


def out_of_disk(scene: Scene) -> Trouble | None:
    """A disk or a quota of one ran out."""
    return told(
        scene,
        "out_of_disk",
        r"No space left on|Disk quota exceeded|\bENOSPC\b",
        "a disk is full",
        ("df -h; df -i   # on the host that is named", "slicebench run … --output OTHER_FOLDER"),
    )


def not_importable(scene: Scene) -> Trouble | None:
    """The suite's generator, or something that it needs, cannot be imported."""
    return told(
        scene,
        "import_error",
        r"generator \S+ cannot be imported|^\s*(\[\d+\] )?(ModuleNotFoundError|ImportError): ",
        "Python code of the suite cannot be imported",
        ("slicebench check SUITE",),
    )


def wrong_data(scene: Scene) -> Trouble | None:
    """What was restored is not what was saved."""
    return told(
        scene,
        "wrong_data",
        r"restored leaf .{1,300} is not what was saved|the restored tree (differs|lacks|has, beyond)",
        "what was restored is not what was saved: the program under test lost or changed data",
        (f"slicebench report {scene.run}",),
    )


def results_torn(scene: Scene) -> Trouble | None:
    """What was collected is gone or cut short."""
    if not scene.torn:
        return None
    again = (
        f"slicebench run --resume {scene.run} --from collect   # gathers it again from what workers delivered"
    )
    return Trouble(
        "results_torn", "results are gone or cut short, as after a full disk", scene.torn, (again,)
    )


def deadline(scene: Scene) -> Trouble | None:
    """An operation, a point or the run took longer than it may; the straggler is named."""
    return told(
        scene,
        "deadline",
        r"(operation \S+|the benchmark|the run|silence between operations) exceeded [\d.]+ s"
        r"|deadline of [\d.]+ s for (operation|benchmark|run|silence) passed",
        "a deadline passed, and the worker that is named held up the others",
        (
            f"grep -n -A40 'supervisor: stacks' LOG   # LOG: a file of logs/ in the folder of {scene.run_id}",
            "slicebench run … --operation-deadline-s SECONDS   # where it only needs longer",
        ),
        unknown="slow or stuck: the stacks of the straggler say where it was",
    )


def worker_killed(scene: Scene) -> Trouble | None:
    """A worker's process was ended by a signal."""
    return told(
        scene,
        "worker_killed",
        r"worker \d+ was killed by \S+",
        "a worker's process was ended by a signal",
        ("dmesg -T | tail   # on its host", f"slicebench logs {scene.run}"),
        unknown="who sent the signal: a person, a scheduler, or the kernel (its log says the last)",
    )


def worker_down(scene: Scene) -> Trouble | None:
    """A supervisor, or its whole host, went away."""
    return told(
        scene,
        "worker_down",
        r"the supervisor is gone without a last word|lost the supervisor of worker \d+|is gone: it was rebooted",
        "a worker's supervisor, or its whole host, went away",
        (
            "slicebench doctor --target TARGET   # do all hosts answer?",
            "uptime; dmesg -T | tail   # on its host",
        ),
        unknown="whether only the process or the host died: whether the host was up all the time says it",
    )


def slicebench_killed(scene: Scene) -> Trouble | None:
    """The process that led the run died; nobody wrote how the run ended."""
    what = "the slicebench process that led this run was killed"
    resume = f"slicebench run --resume {scene.run}   # goes on with what is missing"
    commands = (resume, "slicebench reap --dry-run   # what would be given back")
    if not scene.ended and scene.owner_alive is False:
        lease = Line(Place(scene.lease_place), f"lease {scene.lease_id}: owner {scene.owner}, which is gone")
        return Trouble("slicebench_killed", what, (lease,), commands)
    return told(
        scene,
        "slicebench_killed",
        r"slicebench's process \d+ on \S+ (was killed|ended|fell silent) (during|after) "
        r"|the process that owns this run \(pid \d+\) is gone",
        what,
        (resume,),
    )


def echo_of_a_failure(scene: Scene) -> Trouble | None:
    """Others sat in a barrier or a collective when one of them failed."""
    found = told(
        scene,
        "barrier",
        r"another task died|tasks are unhealthy|heartbeat timeout|stopped sending heartbeats"
        r"|Gloo \w+ failed|Connection closed by peer|waiting for \S+ barrier",
        "workers were in a barrier or a collective with one that had failed: what they say is its echo",
        (f"slicebench logs {scene.run}   # look for the worker that says something else",),
    )
    return found and Trouble(found.name, found.what, found.evidence, found.next, follows=True)


def _workers(seen: Sequence[Seen]) -> str:
    numbers = ", ".join(str(one.worker) for one in seen)
    return f"worker {numbers}" if len(seen) == 1 else f"workers {numbers}"
