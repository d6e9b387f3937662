"""What some fields of GKE targets must look like, each with the words that say so to people."""

from __future__ import annotations

CLUSTER_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
BUCKET = r"^gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/.*)?$"
PROCESSORS = r"^\d+(\.\d+)?m?$"
TENSORBOARD = r"^projects/[^/]+/locations/[^/]+/tensorboards/[^/]+$"
EXPERIMENT = r"^[a-z0-9][a-z0-9-]{0,127}$"

WORDS = {
    CLUSTER_NAME: "a name of a cluster: a letter, then a-z, 0-9 and -, up to 40 in all",
    BUCKET: "a folder of a bucket, such as gs://my-bucket/dumps",
    PROCESSORS: "a number of processors, such as 24 or 500m",
    TENSORBOARD: "projects/P/locations/L/tensorboards/ID",
    EXPERIMENT: "a name of a-z, 0-9 and -, up to 128",
}
