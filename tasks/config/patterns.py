"""What some fields of GKE targets and clusters must look like, each with the words that say so to people."""

from __future__ import annotations

CLUSTER_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
BUCKET = r"^gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/.*)?$"
PROCESSORS = r"^\d+(\.\d+)?m?$"
TENSORBOARD = r"^projects/[^/]+/locations/[^/]+/tensorboards/[^/]+$"
EXPERIMENT = r"^[a-z0-9][a-z0-9-]{0,127}$"
ZONE = r"^[a-z]+(-[a-z]+)*-[a-z]+\d+-[a-z]$"
TIME_OF_DAY = r"^([01]\d|2[0-3]):[0-5]\d$"
RELEASE = r"^v\d+\.\d+\.\d+$"
SHA256 = r"^[0-9a-f]{64}$"
FOLDER = r"^/.+$"
FOLDER_TO_MOUNT = r"^/[^:]+$"
NFS = r"^[^:/]+:/.*$"
NIGHTLY = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
LABEL = r"^([a-z0-9]([a-z0-9.-]{0,22}[a-z0-9])?)?$"
VARIABLE = r"^[A-Za-z_]\w*$"
FORMAT = r"^(json|slack)$"

WORDS = {
    CLUSTER_NAME: "a name of a cluster: a letter, then a-z, 0-9 and -, up to 40 in all",
    BUCKET: "a folder of a bucket, such as gs://my-bucket/dumps",
    PROCESSORS: "a number of processors, such as 24 or 500m",
    TENSORBOARD: "projects/P/locations/L/tensorboards/ID",
    EXPERIMENT: "a name of a-z, 0-9 and -, up to 128",
    ZONE: "a zone, such as us-east5-b",
    TIME_OF_DAY: "a time of the day, such as 03:00",
    RELEASE: "a release, such as v0.12.0",
    SHA256: "a SHA-256: 64 digits of 0-9 and a-f",
    FOLDER: "a whole path of a folder, such as /mnt/shared",
    FOLDER_TO_MOUNT: "a whole path of a folder without a colon, such as /mnt/shared",
    NFS: "SERVER:/PATH, such as 10.0.0.2:/share",
    NIGHTLY: "a name: a letter, then a-z, 0-9 and -, up to 20 in all",
    LABEL: "a label of a-z, 0-9, . and -, up to 24",
    VARIABLE: "a name of an environment variable, such as ALERTS_URL",
    FORMAT: "json or slack",
}
