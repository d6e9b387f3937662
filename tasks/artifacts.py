"""What a run leaves in Prefect's UI besides its log. The UI may be away: a run never fails for want of an artifact."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.exceptions import PrefectException

from tasks.stages.context import Say

UPDATE_EVERY_S = 1.0

_CONSOLE = "https://console.cloud.google.com/storage/browser/_details/"

_UNREACHABLE = (httpx.HTTPError, PrefectException, TimeoutError)


def key_of(*words: str) -> str:
    """Returns an artifact key, which may hold lower-case letters, digits and dashes only."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def escaped(text: str) -> str:
    """Returns text that Markdown shows as it is: logs and messages may hold anything, on purpose too."""
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|~$])", r"\\\1", html.escape(text))


def code_block(text: str) -> str:
    """Returns text as a code block that its content cannot leave."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def where_lie(files: Sequence[str]) -> str:
    """Returns Markdown that leads to files of a run: into Google's console where they are in a bucket, else paths.

    From a page of Prefect's no browser opens a file of this machine.
    """
    if files and all(file.startswith("gs://") for file in files):
        named = [(escaped(file), quote(file.removeprefix("gs://"))) for file in files]
        return "\n".join(f"- [{name}]({_CONSOLE}{path})" for name, path in named)
    return code_block("\n".join(files) or "none")


def post_markdown(say: Say, key: str, markdown: str, description: str) -> None:
    """Leaves a page."""
    with _as_it_may(say, key):
        create_markdown_artifact(markdown=markdown, key=key, description=description)


def post_table(say: Say, key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """Leaves a table; the rows of one key over many runs are its history in the UI."""
    with _as_it_may(say, key):
        create_table_artifact(table=[dict(row) for row in rows], key=key, description=description)


@contextmanager
def progress_bar(say: Say, key: str, description: str) -> Iterator[Callable[[float], None]]:
    """Shows a bar while the block runs. The function it gives takes percent and returns at once.

    A thread of its own tells Prefect, at most once a second: neither a slow server nor a fast worker holds
    the other up.
    """
    latest = 0.0
    moved, over = threading.Event(), threading.Event()

    def show(percent: float) -> None:
        nonlocal latest
        latest = max(latest, min(100.0, percent))
        moved.set()

    def keep_telling() -> None:
        with _as_it_may(say, key):
            artifact = create_progress_artifact(progress=0.0, key=key, description=description)
            assert isinstance(artifact, UUID)
            while not over.wait(UPDATE_EVERY_S):
                if moved.is_set():
                    moved.clear()
                    update_progress_artifact(artifact, latest)
            update_progress_artifact(artifact, latest)

    # The context tells Prefect whose artifact it is.
    context = copy_context()
    teller = threading.Thread(target=lambda: context.run(keep_telling), name="progress", daemon=True)
    teller.start()
    try:
        yield show
    finally:
        over.set()
        teller.join(timeout=UPDATE_EVERY_S)


@contextmanager
def _as_it_may(say: Say, key: str) -> Iterator[None]:
    try:
        yield
    except _UNREACHABLE as error:
        say(f"Prefect's UI lacks the artifact {key}: {type(error).__name__}: {error}")
