"""Where the paths in a file lead: from the file's own folder on."""

from __future__ import annotations

from pathlib import Path

from tasks.config.queueing import Queueing


def located(word: str, base: str) -> str:
    """Returns where a path of the file leads: from the file's own folder on. Names of configs/ stay what they are."""
    path = Path(word).expanduser()
    if "/" not in word or path.is_absolute():
        return word
    beside = Path(base) / path
    return str(path) if _exists(path) and not _exists(beside) else str(beside)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no name of a file: whoever opens it says so
        return False


def with_manifests(queueing: Queueing, base: Path) -> Queueing:
    """Returns what a cluster gets inside, with files of manifests where they lie, and addresses as they are.

    One that does not lie beside the file and does in the current folder is that: it may be said on the command line.
    """
    found = {}
    for part in ("jobset", "kueue"):
        controller = getattr(queueing, part)
        told = controller.manifests
        if told is not None and "://" not in told and not told.startswith("~"):
            word = told if "/" in told else f"./{told}"
            found[part] = controller.model_copy(update={"manifests": located(word, str(base))})
    return queueing.model_copy(update=found) if found else queueing
