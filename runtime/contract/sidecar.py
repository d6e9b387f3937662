"""A program beside a worker, as its supervisor is told of it, and how what only the host knows is filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

GOOGLE = "https://storage.googleapis.com"

STORE_VARIABLES = ("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL")
"""Where clients of Cloud Storage look for it; what they say without a sidecar is the store that one talks to."""

BACKEND_VARIABLE, BACKEND_PAST_PROXIES = "TENSORSTORE_GCS_BACKEND", "gcs_grpc"
"""With this value TensorStore speaks gRPC, which no proxy of HTTP gets to see."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")

SIDECAR_VARIABLE = "SLICEBENCH_SIDECAR"
"""Environment variable with what a manifest records of the sidecar (JSON). Of keys their names, nothing else."""

RECORDS_VARIABLE = "SLICEBENCH_RECORDS"
"""Environment variable with the folder where a worker leaves what is to be read without a sidecar's help."""

RECORDS_FOLDER = "records"
"""In a worker's scratch: that folder."""

SIDECAR_LOG = "sidecar.log"
"""In a worker's scratch: what the sidecar says."""


AT_VARIABLE, CERTIFICATES_VARIABLE = "SLICEBENCH_SIDECAR_AT", "SLICEBENCH_SIDECAR_CERTIFICATES"
"""Environment variables of a pod whose kubelet has started the sidecar: HOST:PORT of {port} and of {forward}, with a
comma between, and its folder."""


@dataclass(frozen=True)
class Sidecar:
    """One program that is up before a worker starts, and goes when the worker's supervisor does.

    `command` is started beside each supervisor; empty: whoever made the pod has started it. `env` are its variables,
    over those of the host and of the run, and `workload_env` those of the worker, which win over all others. `ready`
    says when it is up: http://HOST:PORT/PATH that answers 200, tcp://HOST:PORT that takes connections, or file://PATH
    that is there; `ready_s` how long that may take. `files` (secret) are laid out before it starts, readable for it
    alone, and taken away once it is up. `port`: where it listens, None: where nobody else does. `guards`: it must not
    be gone around. `image` and `certificates` are for pods: what it runs in, if not the workers' image, and its folder.

    Words in braces stand for what only the host knows (braces.py): {port}, {admin} and {forward} (free ports),
    {address} (where to listen so that whoever asks whether it is up gets through: everywhere in pods with a network of
    their own, else on loopback), {python} (the worker's), {lend} (own or all: whose programs may have the machine's
    token), {held} (own or mounted: whether modes of key files say who may read them), {store} (Cloud Storage, as its
    clients would find it), {files}, and {certificates}, a folder for them.
    """

    name: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workload_env: Mapping[str, str] = field(default_factory=dict)
    ready: str = ""
    ready_s: float = 60.0
    port: int | None = None
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    guards: bool = False
    image: str = ""
    certificates: str = ""


def store_of(environment: Mapping[str, str]) -> str:
    """Returns where clients would find Cloud Storage."""
    return next((environment[name] for name in STORE_VARIABLES if environment.get(name)), GOOGLE)


def half_led(environment: Mapping[str, str]) -> str:
    """Returns why programs with these variables would ask two stores for the same objects; empty: they would not.

    An endpoint of Google's, private or of a region, leads to the same objects as no word does.
    """
    away, usual = (
        [name for name in STORE_VARIABLES if _leads_away(environment.get(name, "")) is leads]
        for leads in (True, False)
    )
    if not away or not usual:
        return ""
    there = "leads to Google" if environment.get(usual[0]) else "is not"
    return f"{away[0]} is set and {usual[0]} {there}"


def _leads_away(address: str) -> bool:
    host = address.partition("://")[2] or address
    host = host.partition("/")[0].partition(":")[0].lower()
    return bool(host) and not f".{host}".endswith(".googleapis.com")


def straight(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which programs reach loopback by no other proxy, where the environment names any."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    known = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    value = ",".join(filter(None, (known, "127.0.0.1", "localhost")))
    return {"no_proxy": value, "NO_PROXY": value}


def way_around(environment: Mapping[str, str]) -> str:
    """Returns why a worker with these variables would go around its sidecar; empty: it would not."""
    if environment.get(BACKEND_VARIABLE) == BACKEND_PAST_PROXIES:
        return f"{BACKEND_VARIABLE}={BACKEND_PAST_PROXIES} speaks gRPC, which goes past any proxy"
    return ""
