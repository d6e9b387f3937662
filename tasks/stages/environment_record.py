"""What an environment's record says beside its things: by it alone its cluster and window are known.

So it is written before they are made: whoever is killed between the two leaves nothing that seems others'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath

from runtime.contract.errors import Problem
from tasks.config.environment import EnvironmentConfig
from tasks.leases.clusters import lease_name as cluster_lease
from tasks.leases.environments import called, lease_name
from tasks.leases.lease import State
from tasks.leases.ledger import Ledger, latest

_WINDOWS = "windows"
"""Maintenance windows (times of UTC) that were about to be set, beside that of the file which was carried out last."""


def made_so(config: EnvironmentConfig) -> Mapping[str, str]:
    """Returns what is said once all is as a file says: what is made, for people, and the file.

    Where the manifests lie on the machine of whoever made it leads nobody else anywhere: they stand there by name.
    """
    told = {"made_by": "env up", "cluster": config.cluster.name, "tpu_pools": str(config.tpu_pools)}
    written = config.model_dump(mode="json", exclude_defaults=True)
    for controller in written.get("queueing", {}).values():
        if isinstance(controller, dict) and "://" not in (address := str(controller.get("manifests") or "")):
            controller |= {"manifests": PurePath(address).name} if address else {}
    return {**told, "config": json.dumps(written)}


def about_to(shape: Mapping[str, str], config: EnvironmentConfig) -> Mapping[str, str]:
    """Returns what is said before anything is made as a file says; `shape` is what is said by now."""
    before, now = shape or made_so(config), config.cluster.maintenance
    windows = own_windows(before) | ({now} if now else set())
    return {**before, "cluster": config.cluster.name, _WINDOWS: ",".join(sorted(windows))}


def own_windows(shape: Mapping[str, str]) -> set[str]:
    """Returns the maintenance windows that an environment's cluster may have of `env up`, and of nobody else."""
    carried_out = json.loads(shape.get("config") or "{}").get("cluster", {}).get("maintenance")
    return {one for one in (carried_out, *shape.get(_WINDOWS, "").split(",")) if one}


def another_cluster(ledger: Ledger, config: EnvironmentConfig, project: str) -> list[Problem]:
    """Returns that a file names a cluster of this record that is not the environment's, or another one than it has.

    Both would be worked on, or given back, as if they were what the file says.
    """
    name, mine = config.cluster.name, lease_name(project, config.called)
    if owners := _owners(ledger, project, name, but=mine):
        what = f"cluster.name: cluster {name} is environment {owners[0]}'s, which is in this record as well"
        return [
            Problem(
                "error", None, f"{what}: nothing was changed", fix="name another cluster, or that environment"
            )
        ]
    lease = latest(ledger, mine)
    has = lease.shape.get("cluster", "") if lease is not None and lease.state is not State.GONE else ""
    if has != name and _stands(ledger, project, name):
        what = f"cluster.name: cluster {name} is in this record, and was not made for environment {config.called}"
        back = f"SLICEBENCH_LEDGER={ledger.uri} slicebench cluster delete {name}"
        fix = f"name another cluster; or give it back first, if nobody needs it: {back}"
        return [Problem("error", None, f"{what}: nothing was changed", fix=fix)]
    if has in ("", name) or not _stands(ledger, project, has) or _owners(ledger, project, has, but=mine):
        return []
    what = f"cluster.name: environment {config.called} has cluster {has}, and the file names {name}"
    back = f"slicebench env down FILE --set cluster.name={has}"
    fix = f"give it back first: {back}; or give the other environment a name of its own"
    return [Problem("error", None, f"{what}: nothing was changed, for {has} would stay, and cost", fix)]


def _stands(ledger: Ledger, project: str, cluster: str) -> bool:
    made = latest(ledger, cluster_lease(project, cluster))
    return made is not None and made.state is not State.GONE


def _owners(ledger: Ledger, project: str, cluster: str, *, but: str) -> list[str]:
    """Returns the other environments of a project that have, or are about to make, a cluster of this name."""
    return sorted(
        environment
        for lease in ledger.listing().leases
        if lease.name != but and lease.state is not State.GONE and lease.shape.get("cluster") == cluster
        if (environment := called(lease.name, project))
    )
