"""`slicebench cluster create`: a cluster of GKE by flags, each of them a field of its model."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from flows.cli import cluster
from flows.cli.cluster import DryRun, Force, Name, Project, agreeing, show, show_plan
from flows.cli.cluster_groups import Accelerators, Controllers, Fields, Network, Place
from flows.cli.said import Json, say, surely
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import ExitCode

_LAST = Group("How it goes", sort_key=6)
_ACCELERATORS, _PLACE, _NETWORK = Accelerators(), Place(), Network()
_CONTROLLERS, _FIELDS = Controllers(), Fields()


def create(
    name: Name,
    /,
    *,
    accelerators: Accelerators = _ACCELERATORS,
    place: Place = _PLACE,
    network: Network = _NETWORK,
    controllers: Controllers = _CONTROLLERS,
    fields: Fields = _FIELDS,
    ttl: Annotated[
        str | None,
        Parameter(group=_LAST, help="The reaper deletes it after this long: 8h, 2d; default: kept"),
    ] = None,
    partly: Annotated[
        bool,
        Parameter(
            group=_LAST,
            negative="",
            show_default=False,
            help="Keep the slices that came if not all of them did",
        ),
    ] = False,
    force: Annotated[Force, Parameter(group=_LAST)] = False,
    dry_run: Annotated[DryRun, Parameter(group=_LAST)] = False,
    project: Annotated[Project, Parameter(group=_LAST)] = None,
    json: Annotated[Json, Parameter(group=_LAST)] = False,
    verbose: Annotated[Verbose, Parameter(group=_LAST)] = False,
) -> int:
    """Create a cluster, or finish, repair and resize the one of this name. You are asked before what is in use goes."""
    show_calls(verbose)
    from flows.cli.cluster_flags import config_of
    from flows.cli.tpu import lifetime
    from flows.signals import interrupting
    from tasks.stages.cluster_paid import paid_as_there
    from tasks.stages.cluster_whose import refuse_to_change
    from tasks.stages.clusters import create as make
    from tasks.stages.clusters import preview

    asked = [group.asked() for group in (accelerators, place, network, controllers, fields)]
    config = config_of(**{name: value for group in asked for name, value in group.items()})
    for problem in config.warnings():
        say(str(problem))
    ttl_s = lifetime(ttl) if ttl is not None else None
    desk = cluster.office(project)
    refuse_to_change(desk, name)
    config = paid_as_there(desk, name, config)
    if dry_run:
        return show_plan(preview(desk, name, config), json)
    with interrupting(say):
        standing = make(desk, name, config, ttl_s=ttl_s, agree=agreeing(force), partly=partly)
    back = f"give it back with: slicebench cluster delete {name}"
    with surely(f"cluster {name} is made; {back}"):
        show(standing, json)
    if not json:
        say(back)
    return ExitCode.DONE
