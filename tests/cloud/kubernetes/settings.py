"""What a test can set about the cluster: nodes, images, paces. All of it can be changed while it runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[3])


@dataclass
class Settings:
    """One cluster's settings; `/_standin/settings` takes the same names."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    """{pool, count, labels, taints, resources}: nodes `<pool>-0` … with these; see `nodes.py` for defaults."""
    images: list[str] = field(default_factory=lambda: ["*"])
    """Patterns of images that exist; the pull of any other fails."""
    python: str = sys.executable
    """What every image has as `python` and `python3`."""
    image_env: dict[str, str] = field(default_factory=lambda: {"PYTHONPATH": _ROOT})
    """What every image has in its environment."""
    entrypoints: dict[str, list[str]] = field(default_factory=dict)
    """What images start, by patterns, where a container names no command; `sleep infinity` for others."""
    tpu_env: bool = True
    """Whether pods that ask for google.com/tpu get the variables that GKE's webhook adds."""
    token: str = ""
    """The bearer token that calls must carry; empty: none is asked for."""
    certificates: str = ""
    """A folder with server.pem, server.key and ca.pem: the API is served by TLS."""
    stopped: list[str] = field(default_factory=list)
    """Controllers that are down: jobset, job, cronjob, kueue, scheduler, kubelet, garbage, nodes, deployments."""
    ready_after_s: float = 0.0
    """How long a container is in ContainerCreating."""
    backoff_s: float = 10.0
    """How long a kubelet waits before it starts a crashed container, or pulls a missing image, again (doubles)."""
    pace_s: float = 0.0
    """How long each controller waits before it looks at what changed."""
    bookmark_s: float = 60.0
    """How often a watch that asked for bookmarks gets one."""
    node_grace_s: float = 40.0
    """How long a node may be silent before it is unreachable."""
    evict_after_s: float = 300.0
    """How long pods tolerate an unreachable node."""
    kueue_reasons: bool = False
    """Whether Kueue gives a reason of its own to each way to wait (its gate UnadmittedWorkloadsObservability, off in
    0.19.2 as it comes; the recordings have it on), not just Pending or Inadmissible."""
    tells_restarts: bool = True
    """Whether JobSet has the condition RestartingJobSet, as since 0.12; the recordings are of 0.11."""
    webhook_delay_s: float = 0.0
    """How long a webhook still refuses when its Deployment says Available."""

    def change(self, values: dict[str, Any]) -> None:
        """Sets some of them; KeyError for a name that is none."""
        known = {one.name for one in fields(self)}
        for name, value in values.items():
            if name not in known:
                raise KeyError(name)
            setattr(self, name, value)
