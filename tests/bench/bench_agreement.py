"""Whether save, wait and restore take as long by our code and timer as by Orbax's own runner, turn by turn."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.contract.progress import PROGRESS_FD_VARIABLE
from tests.bench import peers
from tests.bench.bars import Bar, bar
from tests.bench.lockstep import Player, alternate
from tests.bench.pace import rounds
from tests.bench.suites import DEVICES, POINTS, suite

OPERATIONS = ("save", "wait_until_finished", "restore")

PAIRS = (3, 12)
"""Pairs of processes, at least and at most: what is particular to one process must not decide."""

BUDGET_S = 240.0

REPEATS = 9
"""Turns of each process at each point. The first is not counted: Python and XLA see the work for the first time."""

_ARRAYS = 64
"""What `save` blocks for is work for each array, not for each byte: with a handful of them it is over too soon."""

_ROWS = 512
"""Rows of an array, 1 KiB each."""

_FREE_BYTES = 4 << 30
_LIKE_FOR_LIKE = Path(__file__).parent / "like_for_like.py"
_MEMORY = Path("/dev/shm")


def measure() -> list[Bar]:
    """Plays all rounds with one tree, and returns a bar for each operation."""
    python = peers.environment_python()
    ours: dict[str, list[float]] = defaultdict(list)
    theirs: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=_place()) as name:
        tree = suite(Path(name), "agreement", repeats=REPEATS, arrays=_ARRAYS, rows=_ROWS)
        pairs = 0
        for number in rounds("agreement, pairs of processes", *PAIRS, BUDGET_S):
            folder = Path(name) / str(number)
            folder.mkdir()
            for found, one in zip((ours, theirs), _pair(python, tree, folder, number), strict=True):
                for operation in OPERATIONS:
                    found[operation] += _counted(one[operation])
            shutil.rmtree(folder)
            pairs += 1
    return [
        bar(
            f"measured {operation}, {_ARRAYS} arrays", ours[operation], theirs[operation],
            at_least=0.9, at_most=1.1, whole_interval=True, groups=pairs, unit="ms",
        )
        for operation in OPERATIONS
    ]  # fmt: skip


def _pair(
    python: Path, tree: Path, folder: Path, number: int
) -> tuple[Mapping[str, list[float]], Mapping[str, list[float]]]:
    """Lets one process of each kind play; returns what ours and theirs measured. Both remove their checkpoints."""
    ours, theirs = folder / "ours", folder / "theirs"
    with (
        Player(
            _alike(peers.our_command(python, tree, DEVICES, ours, keep=False)),
            peers.our_environment(),
            _restored,
            pipe_variable=PROGRESS_FD_VARIABLE,
        ) as one,
        Player(
            _alike(peers.orbax_command(python, tree, theirs, keep=False)),
            peers.orbax_environment(DEVICES, stubbed=True),
            lambda line: "Test finished: " in line,
        ) as other,
    ):
        alternate(one, other, POINTS * REPEATS, first=number)
    return peers.our_operations(ours), peers.orbax_operations("".join(other.lines))


def _alike(command: Sequence[str]) -> list[str]:
    """Returns the command `python -m MODULE …` so that nothing but the operation itself is in a block; see there."""
    python, _, *module = command
    return [python, str(_LIKE_FOR_LIKE), *module]


def _restored(line: str) -> bool:
    """Says whether our worker told the end of a restore: then it compares, cleans up and makes data before it saves."""
    told = json.loads(line)
    return (told["kind"], told.get("phase"), told.get("operation")) == ("operation", "end", "restore")


def _counted(values: Sequence[float]) -> list[float]:
    if len(values) != POINTS * REPEATS:
        raise RuntimeError(f"{len(values)} values were measured, not {POINTS * REPEATS}")
    return [value for turn, value in enumerate(values) if turn % REPEATS]


def _place() -> str | None:
    """Returns a file system in memory where there is one: a disk's own whims hit both alike, but hide what differs."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _FREE_BYTES:
        return str(_MEMORY)
    return None
