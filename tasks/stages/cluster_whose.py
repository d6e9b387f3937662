"""Whether a cluster is that of an environment, whose commands make, resize and delete it with all that is around it."""

from __future__ import annotations

from runtime.contract.errors import BadInput
from tasks.leases import environments
from tasks.leases.lease import State
from tasks.stages.cluster_standing import Office


def environment_of(office: Office, name: str) -> str:
    """Returns the name of the environment in this ledger that a cluster of this name is of; empty: of none."""
    project = office.container.project
    for lease in office.ledger.listing().leases:
        called = environments.called(lease.name, project)
        if called and lease.state is not State.GONE and lease.shape.get("cluster", called) == name:
            return called
    return ""


def refuse_to_change(office: Office, name: str) -> None:
    """Raises BadInput for a cluster of an environment: what it is to have stands in the environment's file."""
    if called := environment_of(office, name):
        raise BadInput(
            f"cluster {name} is of environment {called}: its next `env up` would undo this",
            fix="slicebench env up FILE, with what it is to have in its file, or --set tpu_pools=N",
        )
