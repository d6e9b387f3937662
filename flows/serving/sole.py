"""One `slicebench up` for a database: whoever is second in the same second is refused, before anything starts.

`register.refuse_others` looks at workers, which are heard only once an `up` is up; two that start together saw none of
each other's. The lock goes with the process that holds it, however that ends.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from flows.serving import place
from flows.serving.settings import DATABASE
from runtime.contract.errors import BadInput
from tasks.cloud.locks import held_alone

_URLS = tuple(f"{prefix}_CONNECTION_URL" for prefix in DATABASE)


@contextmanager
def only_one(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Holds the database for the block. Raises BadInput where another process of this machine does."""
    path = lock_of(environ)
    with held_alone(path, "slicebench up") as holder:
        if holder is not None:
            raise BadInput(
                f"another slicebench up works on this database ({holder} has {path}), and each would take the "
                "other's runs",
                fix="start runs there, end that one, or give this one a database of its own",
            )
        yield


def lock_of(environ: Mapping[str, str]) -> Path:
    """Returns the lock file: beside a database that is a file, else, for all that reach one over the network from
    this machine as this user, in a folder that is the same for every state root.
    """
    url = next((environ[name] for name in _URLS if environ.get(name)), "")
    told = {name: value for name, value in environ.items() if name.startswith(DATABASE) and name not in _URLS}
    if url.startswith("sqlite"):
        file = url.partition(":///")[2].partition("?")[0]
        if file and file != ":memory:":
            return Path(f"{Path(file).expanduser().resolve()}.up.lock")
    elif url or told:
        return _shared(environ) / f"up-{_key(url, told)}.lock"
    return place.folder() / "up.lock"


def _key(url: str, told: Mapping[str, str]) -> str:
    """Returns a name for a database on a server: who we are there, and our password, are not what makes it one."""
    parts = urlsplit(url)
    database = (parts.hostname, parts.port, parts.path)
    settings = {name: value for name, value in told.items() if name.endswith(("_HOST", "_PORT", "_NAME"))}
    return hashlib.sha256(json.dumps([database, settings], sort_keys=True).encode()).hexdigest()[:16]


def _shared(environ: Mapping[str, str]) -> Path:
    own = environ.get("XDG_RUNTIME_DIR") or environ.get("XDG_CACHE_HOME")
    return (Path(own) if own else Path.home() / ".cache") / "slicebench"
