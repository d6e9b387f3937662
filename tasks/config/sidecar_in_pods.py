"""What cannot be of a sidecar in pods: a name that another container has, an address where the cluster's probe is not.

Apart from the model of a sidecar, which does not know beside what it will stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.config.sidecar import SidecarConfig

ENCRYPTION = "encryption"
"""What our own proxy is called in files, logs, manifests and pods."""
XLA_DUMP, OPS_AGENT = "xla-dump", "ops-agent"
"""The containers of debug_dump: and ops_agent:."""
PATHWAYS_PROXY, PATHWAYS_MANAGER = "pathways-proxy", "pathways-rm"
"""The servers of Pathways beside its program."""

_OF_CLUSTERS = ("gke-gcsfuse-sidecar", "gke-gcsfuse-metadata-prefetch", "istio-init", "istio-proxy")
"""What webhooks of GKE and of Istio put into pods: of two containers of one name the pod is refused, by then."""


def name_of(config: GkeTargetConfig) -> str:
    """Returns what the container is called that stands beside the workers; empty: none does."""
    if config.encryption is not None:
        return ENCRYPTION
    return config.sidecar.name if config.sidecar is not None else ""


def wrong_in_pods(config: GkeTargetConfig) -> Iterator[str]:
    """Yields why what is to stand beside the workers cannot stand there."""
    key = "encryption" if config.encryption is not None else "sidecar"
    for name, whose in _others(config):
        if name == name_of(config):
            other = "write another container_name:" if key == "encryption" else "write another name:"
            yield f"{key}: is called {name} in pods, and so is {whose}: {other}"
    sidecar = config.sidecar
    if sidecar is not None and _probed_on_loopback(sidecar) and not config.uses_host_network:
        yield (
            f"sidecar: {sidecar.name} listens at 127.0.0.1, where the cluster cannot ask it whether it is up: write "
            "ready: {file: …}, or {address} in the place of 127.0.0.1, which is all addresses of its pod"
        )


def exposed(config: GkeTargetConfig) -> str:
    """Returns why others may reach what a sidecar takes; empty: nobody does, as far as its target tells."""
    sidecar = config.sidecar
    if sidecar is None or config.uses_host_network or not _probed_at_its_port(sidecar):
        return ""
    return (
        f"the cluster asks {sidecar.name} at its own port whether it is up, so it listens where any pod of the "
        "cluster reaches it, without TLS"
    )


FOR_NOBODY_ELSE = "have it listen at 127.0.0.1, and say ready: {file: …}, or ready: {port: …} of another port"


def _others(config: GkeTargetConfig) -> Iterator[tuple[str, str]]:
    """Yields the names of the containers beside which it stands, and what each of them is."""
    for name in config.container_names:
        yield name, "the workers' container"
    if config.debug_dump is not None:
        yield XLA_DUMP, "the container of debug_dump:"
    if config.ops_agent is not None:
        yield OPS_AGENT, "the container of ops_agent:"
    if config.pathways is not None:
        yield from ((name, "a server of Pathways") for name in (PATHWAYS_PROXY, PATHWAYS_MANAGER))
    for name in _OF_CLUSTERS:
        yield name, "a container that clusters put into pods"


def _probed_at_its_port(sidecar: SidecarConfig) -> bool:
    """Says whether the cluster asks it at the port where the workers reach it, too."""
    return sidecar.ready.file is None and sidecar.ready.port in (None, sidecar.port)


def _probed_on_loopback(sidecar: SidecarConfig) -> bool:
    """Says whether the port that the cluster asks at is, by the sidecar's own words, on loopback."""
    if sidecar.ready.file is not None:
        return False
    ports = (
        [str(sidecar.ready.port)] if sidecar.ready.port else [r"\{port\}", str(sidecar.port or r"\{port\}")]
    )
    at = re.compile(rf"\b(127\.0\.0\.1|localhost):({'|'.join(ports)})(?!\d)")
    return any(at.search(text) for text in (*sidecar.command, *sidecar.env.values()))
