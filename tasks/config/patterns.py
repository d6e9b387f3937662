"""What some fields of GKE targets and clusters must look like, each with the words that say so to people."""

from __future__ import annotations

LONGEST_OBJECT = 253
MOST_S = 10**9
"""Seconds that any limit may have, 31 years: what is longer is a slip, and beyond what Kubernetes can hold."""
MOST_STARTS = 10**6

CLUSTER_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
BUCKET = r"^gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/.*)?$"
PROCESSORS = r"^(0*[1-9]\d{0,4}(\.\d{1,3})?|0*\.\d{0,2}[1-9]\d{0,2}|0*[1-9]\d{0,7}m)$"
"""Not none at all, and no more than any machine has."""
TENSORBOARD = r"^projects/[^/]+/locations/[^/]+/tensorboards/[^/]+$"
EXPERIMENT = r"^[a-z0-9][a-z0-9-]{0,127}$"
ZONE = r"^[a-z]+(-[a-z]+)*-[a-z]+\d+-([a-z]|ai\d+[a-z])$"
LOCATION = r"^[a-z]+(-[a-z]+)*-[a-z]+\d+(-([a-z]|ai\d+[a-z]))?$"
PROJECT = r"^[a-z0-9][a-z0-9.:-]*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""Of namespaces and containers."""
OBJECT = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""Of most objects of Kubernetes, of up to LONGEST_OBJECT letters."""
QUEUE = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
"""Of an object whose name is a label as well."""
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
ONE_WORD = r"^[!-~]+$"
ONE_LINE = r"^[^\x00-\x1f\x7f]+$"
RESERVATION = r"^(projects/[^/\s]+/reservations/)?[a-z]([-a-z0-9]*[a-z0-9])?(/[A-Za-z]+/[^\s]+)?$"
PYTHON = r"^3\.\d{1,2}(\.\d{1,2})?$"
VERSION = r"^\d+(\.\d+){0,2}(-gke\.\d+)?$|^latest$|^-$"
EMAIL = r"^([^@\s]+@[^@\s]+|default)$"
TAG = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
NETWORK = r"^((https://www.googleapis.com/compute/[^\s]+/)?projects/[^/\s]+/(global/networks|regions/[^/\s]+/subnetworks)/)?[a-z]([-a-z0-9]*[a-z0-9])?$"
HOST = r"^[A-Za-z0-9_:\[][^\s@/]*$"
HOST_KEY = r"^[a-z][^\s]* [A-Za-z0-9+/]+=*( .*)?$"
USER = r"^[A-Za-z_][A-Za-z0-9_.@-]*\$?$"
IMAGE = r"^[A-Za-z0-9\[][A-Za-z0-9._:/\[\]-]*(@sha256:[0-9a-f]{64})?$"
REPOSITORY = r"^[A-Za-z0-9\[][A-Za-z0-9._:/\[\]-]*$"
TIME_OF_DAY = r"^([01]\d|2[0-3]):[0-5]\d$"
RELEASE = r"^v\d+\.\d+\.\d+$"
SHA256 = r"^[0-9a-f]{64}$"
FOLDER = r"^/.+$"
FOLDER_TO_MOUNT = r"^/[^:]+$"
URL_PATH = r"^/[!-~]*$"
SIDECAR_FILE = r"^(/|\{certificates\}/)[^\x00-\x1f\x7f]+$"
NFS = r"^[^:/]+:/.*$"
NIGHTLY = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
ACCEPTANCE = r"^[a-z]([a-z0-9-]{0,24}[a-z0-9])?$"
LABEL = r"^([a-z0-9]([a-z0-9.-]{0,22}[a-z0-9])?)?$"
VARIABLE = r"^[A-Za-z_]\w*$"
FORMAT = r"^(json|slack)$"
REGION = r"^[a-z]+(-[a-z]+)*-[a-z]+\d+$"
POOL_PREFIX = r"^[a-z]([-a-z0-9]{0,33}[a-z0-9])?$"
"""With a number behind it, it is the name of a node pool, of up to 40 letters."""
ACCOUNT = r"^[a-z]([-a-z0-9]{4,28}[a-z0-9])$"
ROLE = r"^((projects/[^/\s]+/|organizations/\d+/)?roles/)?[A-Za-z0-9_.]+$"
BUCKET_NAME = r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$"
BUCKET_PLACE = r"^([A-Za-z]{2,4}|[A-Za-z]+(-[A-Za-z]+)*-[A-Za-z]+\d+|[A-Za-z]{3}\d+)$"
REGISTRY_PLACE = r"^(us|europe|asia|[a-z]+(-[a-z]+)*-[a-z]+\d+)$"
STORAGE_CLASS = r"^(STANDARD|NEARLINE|COLDLINE|ARCHIVE)$"
RECORD = r"^gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)+/?$"
ENVIRONMENT = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"

WORDS = {
    CLUSTER_NAME: "a name of a cluster: a letter, then a-z, 0-9 and -, up to 40 in all",
    BUCKET: "a folder of a bucket, such as gs://my-bucket/dumps",
    PROCESSORS: "a number of processors, such as 24 or 500m",
    TENSORBOARD: "projects/P/locations/L/tensorboards/ID",
    EXPERIMENT: "a name of a-z, 0-9 and -, up to 128",
    ZONE: "a zone, such as us-east5-b",
    LOCATION: "a zone or a region, such as us-east5-b or us-east5",
    PROJECT: "the id of a project: a-z, 0-9 and -",
    DNS_LABEL: "a name of a-z, 0-9 and -, with neither end a -, up to 63 in all",
    OBJECT: "the name of an object of Kubernetes: a-z, 0-9, - and ., the ends a letter or digit",
    QUEUE: "the name of a queue: a-z, 0-9, - and ., the ends a letter or digit, up to 63 in all",
    LABEL_KEY: "the key of a label: NAME or DOMAIN/NAME, NAME of A-Z, a-z, 0-9, -, _ and ., up to 63",
    LABEL_VALUE: "the value of a label: A-Z, a-z, 0-9, -, _ and ., the ends a letter or digit, up to 63",
    ONE_WORD: "one word that is not empty",
    ONE_LINE: "one line of text that is not empty",
    RESERVATION: "the name of a reservation, or projects/P/reservations/R",
    PYTHON: "a version of Python, such as 3.12",
    VERSION: "a version of GKE, such as 1.33 or 1.33.4-gke.1245000",
    EMAIL: "the e-mail of a service account, such as nodes@my-project.iam.gserviceaccount.com",
    TAG: "a name of a letter, then a-z, 0-9 and -, up to 63 in all",
    NETWORK: "the name of a network, such as my-network",
    HOST: "the name or address of a host, without user or port",
    HOST_KEY: "a public key as in known_hosts: its type and base64",
    USER: "the name of a user, such as ubuntu",
    IMAGE: "the name of an image: HOST/PATH:TAG or HOST/PATH@sha256: and 64 digits",
    REPOSITORY: "the name of a repository: HOST/PATH, without a tag",
    TIME_OF_DAY: "a time of the day, such as 03:00",
    RELEASE: "a release, such as v0.12.0",
    SHA256: "a SHA-256: 64 digits of 0-9 and a-f",
    FOLDER: "a whole path of a folder, such as /mnt/shared",
    FOLDER_TO_MOUNT: "a whole path of a folder without a colon, such as /mnt/shared",
    URL_PATH: "a path of a URL, such as /healthz",
    SIDECAR_FILE: "a whole path of a file, or one below {certificates}",
    NFS: "SERVER:/PATH, such as 10.0.0.2:/share",
    ACCEPTANCE: "a name: a letter, then a-z, 0-9 and -, up to 26 in all",
    NIGHTLY: "a name: a letter, then a-z, 0-9 and -, up to 20 in all",
    LABEL: "a label of a-z, 0-9, . and -, up to 24",
    VARIABLE: "a name of an environment variable, such as ALERTS_URL",
    FORMAT: "json or slack",
    REGION: "a region, such as us-east5",
    POOL_PREFIX: "a name: a letter, then a-z, 0-9 and -, up to 35 in all",
    ACCOUNT: "the id of a service account: a letter, then a-z, 0-9 and -, from 6 to 30 in all",
    ROLE: "a role, such as roles/storage.objectAdmin",
    BUCKET_NAME: "the name of a bucket, without gs://: a-z, 0-9, -, _ and ., from 3 to 63 in all",
    BUCKET_PLACE: "where a bucket can be: a region such as us-east5, or us, eu or asia",
    REGISTRY_PLACE: "where images can be: a region such as us-east5, or us, europe or asia",
    STORAGE_CLASS: "STANDARD, NEARLINE, COLDLINE or ARCHIVE",
    RECORD: "a folder of a bucket, such as gs://my-bucket/environments",
    ENVIRONMENT: "a name: a letter, then a-z, 0-9 and -, up to 40 in all",
}
