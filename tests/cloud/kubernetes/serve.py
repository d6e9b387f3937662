"""Serves the stand-in from a process of its own; by hand: `python -m tests.cloud kubernetes --help`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.cloud.kubernetes.cluster import Cluster, run
from tests.cloud.kubernetes.settings import Settings

_EXAMPLE = """
settings: a JSON or YAML file with the names of settings.py, for example
  nodes: [{pool: np-0, count: 4, labels: {cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice,
           cloud.google.com/gke-tpu-topology: 4x4}, resources: {google.com/tpu: "4"}}]
"""


def main(argv: list[str]) -> int:
    """Serves until the process is told to end; says where in one line of JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cloud kubernetes",
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="of the API; 0 takes a free one")
    parser.add_argument("--control-port", type=int, default=0, help="of /_standin; 0 takes a free one")
    parser.add_argument("--folder", type=Path, help="for kubeconfig, pods' files; default: a new one")
    parser.add_argument("--settings", type=Path, help="a file of settings, see below")
    parser.add_argument("--without", default="", help="what is not installed: jobset,kueue")
    parser.add_argument("--parent", type=int, help="end when this process is gone")
    options = parser.parse_args(argv)
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="slicebench-kube-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings()
    if options.settings:
        settings.change(yaml.safe_load(options.settings.read_text()) or {})
    absent = options.without.split(",")
    cluster = Cluster(
        folder,
        settings,
        options.port,
        options.control_port,
        jobset="jobset" not in absent,
        kueue="kueue" not in absent,
    )

    def ready() -> None:
        config = folder / "kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig(cluster.api.url, settings)))
        print(json.dumps({**cluster.facts(), "kubeconfig": str(config), "folder": str(folder)}), flush=True)

    run(cluster, ready, options.parent)
    return 0


def kubeconfig(url: str, settings: Settings) -> dict[str, Any]:
    """Returns a kubeconfig whose only context, `standin`, is this cluster."""
    server: dict[str, Any] = {"server": url}
    if settings.certificates:
        server["certificate-authority"] = str(Path(settings.certificates) / "ca.pem")
    user = {"token": settings.token} if settings.token else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "standin", "cluster": server}],
        "users": [{"name": "standin", "user": user}],
        "contexts": [
            {"name": "standin", "context": {"cluster": "standin", "user": "standin", "namespace": "default"}}
        ],
        "current-context": "standin",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
