"""Stage *upload*: the effective suite and the workers' own code go to every worker."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import runtime
from runtime.contract.names import GIVEN_NAMES_VARIABLE, SECRET_NAMES_VARIABLE, SOURCE_VARIABLE, SUITE_FILE
from runtime.contract.sidecar import SIDECAR_VARIABLE
from tasks.config.target import LocalTargetConfig
from tasks.stages.context import Run
from tasks.stages.usercode import user_code
from tasks.targets import beside
from tasks.targets.types import Bundle, Image, Uploaded, Workers, Workload


def upload(run: Run, workers: Workers, image: Image) -> Uploaded:
    """Returns where things lie on the workers. Done anew each time: it is quick, and workers may be new."""
    run.folder.write(SUITE_FILE, run.spec.suite_text.encode())
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        suite = Path(folder) / SUITE_FILE
        suite.write_text(run.spec.suite_text)
        bundle = Bundle({SUITE_FILE: str(suite), **worker_code(), **users_code(run)}, workload_of(run, image))
        uploaded = run.target.upload(workers, bundle, image)
    run.mark("upload", suite=uploaded.suite, code=uploaded.code)
    return uploaded


def workload_of(run: Run, image: Image) -> Workload:
    """Returns what is to run on the workers. Beside the user's variables they get what their manifest records."""
    spec = run.spec
    source = {**image.source, "image": image.reference}
    stands = beside.recorded(spec.target)
    about = {
        SOURCE_VARIABLE: json.dumps(source, sort_keys=True),
        GIVEN_NAMES_VARIABLE: ",".join(sorted(spec.env)),
        SECRET_NAMES_VARIABLE: ",".join(sorted(spec.secret_env)),
        **({SIDECAR_VARIABLE: stands} if stands else {}),
    }
    return Workload(
        run_id=spec.run_id,
        output=run.folder.uri,
        env={**spec.env, **about},
        deadlines=spec.deadlines,
        debug_dumps=spec.debug_dumps,
        local_directory=spec.local_directory,
        sidecar=beside.beside(spec.target, elsewhere=not isinstance(spec.target, LocalTargetConfig)),
    )


def users_code(run: Run) -> Mapping[str, str]:
    """Returns the files of the user's own benchmark classes, beside ours on the workers' path."""
    return {f"code/{name}": path for name, path in user_code(run.spec).items()}


def worker_code() -> Mapping[str, str]:
    """Returns the files of the `runtime` package: name in the bundle → path here."""
    root = Path(runtime.__path__[0])
    files = sorted(file for file in root.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {f"code/runtime/{file.relative_to(root).as_posix()}": str(file) for file in files}
