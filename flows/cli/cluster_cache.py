"""`slicebench cluster cache-image`: an image pulled onto every node of a cluster before workloads want it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode


def cache_image(
    name: Annotated[str, Parameter(help="Exact name of the cluster")],
    image: Annotated[str, Parameter(help="Image by tag or digest")],
    /,
    *,
    pool: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Nodes of this pool only (repeat the flag); else all with accelerators"),
    ] = (),
    timeout: Annotated[str, Parameter(help="How long nodes may take: 30m")] = "30m",
    location: Annotated[
        str | None,
        Parameter(("--location", "--zone"), help="Region or zone, if several have a cluster of this name"),
    ] = None,
    project: Annotated[str | None, Parameter(help="Google Cloud project; else from the environment")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Pull an image onto the nodes of a cluster and wait until each has it, so that the first workload need not."""
    show_calls(verbose)
    from flows.cli.tpu import seconds
    from flows.signals import interrupting
    from tasks.cloud.kubernetes import Kubernetes
    from tasks.stages.cluster_cache import cache_image as pull
    from tasks.targets.gke_access import reach_cluster

    limit_s = seconds(timeout, "--timeout")
    if not limit_s:
        raise BadInput(
            f"--timeout {timeout} gives nodes no time", fix="give them some, such as --timeout 30m"
        )
    with interrupting(say):
        done = pull(
            Kubernetes(reach_cluster(project, location, name).access), image, pool, say=say, limit_s=limit_s
        )
    if json:
        print_json({"image": image, **asdict(done)})
    else:
        say(f"{counted(len(done.have), 'node')} of {name} {'has' if len(done.have) == 1 else 'have'} {image}")
    return ExitCode.DONE
