"""How to get into the workers of a slice over SSH: their addresses, and host keys pinned from guest attributes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.contract.errors import InfrastructureError
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_keys import with_key
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import Busy
from tasks.cloud.tpu_model import OS_LOGIN, Address, Node
from tasks.targets.tpu_iap import tunnel

Way = Literal["external", "internal", "iap"]
"""By which address one logs in; iap: through a tunnel of Identity-Aware Proxy."""

_PREFERRED = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")


@dataclass(frozen=True)
class Access:
    """As whom and by which way one logs in. `key` is a private key file; None: the user's own keys and agent."""

    user: str
    key: str | None = None
    port: int = 22
    way: Way = "external"


def metadata_of_made(user: str, public_key: str) -> Mapping[str, str]:
    """Returns the metadata of a TPU VM that is made for us: it tells its host keys, and takes our key.

    Its project may have OS Login on, under which keys in metadata count for nothing.
    """
    return {"enable-guest-attributes": "TRUE", OS_LOGIN: "FALSE", **with_key({}, user, public_key)}


def endpoints(
    tpu: CloudTpu, node: Node, access: Access, *, patience_s: float = 300.0, poll_s: float = 3.0
) -> Sequence[Endpoint]:
    """Returns how to reach each worker of a slice, in order, waiting until all have told their host keys.

    Raises InfrastructureError when one has no address that fits, or does not tell its key in time.
    """
    keys = _host_keys(tpu, node, patience_s, poll_s)
    proxies = _tunnels(tpu, node, access) if access.way == "iap" else [()] * len(node.addresses)
    return [
        Endpoint(
            address=_address(node, worker, address, access),
            user=access.user,
            port=access.port,
            keys=(access.key,) if access.key else (),
            host_key=keys[worker],
            agent=access.key is None,
            default_keys=access.key is None,
            proxy=proxies[worker],
        )
        for worker, address in enumerate(node.addresses)
    ]


def _host_keys(tpu: CloudTpu, node: Node, patience_s: float, poll_s: float) -> Sequence[str]:
    """Returns one host key for each worker, once all of them have told theirs: one that is late shifts the others."""
    begin = time.monotonic()
    told: Sequence[Sequence[str]] = ()
    while True:
        try:
            told = [
                [f"{kind} {key}" for kind, key in guest.items() if kind.startswith(("ssh-", "ecdsa-"))]
                for guest in tpu.guests(node.zone, node.name)
            ]
        except Busy as error:  # it is not READY any more, or not yet
            if time.monotonic() - begin > patience_s:
                raise InfrastructureError(f"{node.name} does not tell its host keys: {error}") from error
        else:
            if len(told) == len(node.addresses) and all(told):
                return [min(keys, key=_rank) for keys in told]
            if time.monotonic() - begin > patience_s:
                raise InfrastructureError(
                    f"{len(told)} of {len(node.addresses)} workers of {node.name} told their SSH host keys within "
                    f"{patience_s:g} s: guest attributes may be disabled (metadata enable-guest-attributes), or a "
                    "worker did not start; see `slicebench tpu status`"
                )
        time.sleep(poll_s)


def _tunnels(tpu: CloudTpu, node: Node, access: Access) -> list[tuple[str, ...]]:
    """Returns the way into each worker through Identity-Aware Proxy, which knows workers by their instances' names."""
    names = [guest.get("hostname", "") for guest in tpu.guests(node.zone, node.name, "")]
    if len(names) != len(node.addresses) or not all(names):
        raise InfrastructureError(
            f"{sum(map(bool, names))} of {len(node.addresses)} workers of {node.name} told the names of their "
            "instances, which tunnels need: guest attributes may be disabled (metadata enable-guest-attributes)"
        )
    # A name may be told with its domain, which gcloud does not want.
    return [tuple(tunnel(node.project, node.zone, name.partition(".")[0], access.port)) for name in names]


def _rank(key: str) -> int:
    kind = key.split()[0]
    return _PREFERRED.index(kind) if kind in _PREFERRED else len(_PREFERRED)


def _address(node: Node, worker: int, address: Address, access: Access) -> str:
    if access.way != "external":
        return address.internal
    if address.external is None:
        raise InfrastructureError(
            f"worker {worker} of {node.name} has no external address: reach it from inside its network "
            "(addresses: internal, or --internal) or through a tunnel (addresses: iap, or --iap), or make it with "
            "external addresses"
        )
    return address.external
