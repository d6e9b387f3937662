"""What will stand beside each worker, as a plan tells it: what it is, what it encrypts by which key, its ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.braces import filled
from runtime.contract.keymap import EVERY
from runtime.contract.sidecar import Sidecar
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.target import TargetConfig
from tasks.targets.beside import beside
from tasks.targets.kube_beside import CERTIFICATES, numbers, ports, requests, shares

_ALL_ELSE = "everything else passes through as it is"
_FOR = {"port": "workers", "admin": "health", "forward": "https_proxy"}


@dataclass(frozen=True)
class Standing:
    """What stands beside each worker, before anybody has started it.

    `encrypts` None: nobody knows that of a program that is not ours. `keys`: by place, as the target names them; what
    is written elsewhere passes through. `image` None: it is a process of its own, in no container. `asks`: for what its
    container asks, `cpu` and `memory` (bytes), as Kubernetes reads them. `ports`: by who
    comes there; None: a free one. `up_once`: when it is up. `certificates`: the folder that it shares with the
    workers; None: it shares none, or one that only the host knows. `workload_env`: names of what it gives the workers.
    """

    name: str
    is_ours: bool
    encrypts: bool | None
    keys: Mapping[str, str]
    old_keys: Sequence[str]
    image: str | None
    asks: Mapping[str, str]
    command: Sequence[str]
    ports: Mapping[str, int | None]
    up_once: str
    certificates: str | None
    workload_env: Sequence[str]


def standing(config: TargetConfig) -> Standing | None:
    """Returns what stands beside the workers of a target; None: nothing does. Reads no key file."""
    sidecar = beside(config, elsewhere=False)
    if sidecar is None:
        return None
    in_pods, ours = isinstance(config, GkeTargetConfig), config.encryption
    known = numbers(sidecar) if in_pods else {"port": sidecar.port} if sidecar.port else {}
    certificates = (sidecar.certificates or CERTIFICATES) if in_pods and shares(sidecar) else None
    return Standing(
        name=sidecar.name,
        is_ours=ours is not None,
        encrypts=ours.enabled if ours is not None else None,
        keys=dict(ours.by_place) if ours is not None and ours.enabled else {},
        old_keys=ours.old_keys if ours is not None else (),
        image=(sidecar.image or "that of the workers") if in_pods else None,
        asks=requests(config) if isinstance(config, GkeTargetConfig) else {},
        command=() if ours is not None else sidecar.command,
        ports={_FOR[name]: known.get(name) for name in ports(sidecar)},
        up_once=_up_once(sidecar, certificates),
        certificates=certificates,
        workload_env=tuple(sidecar.workload_env),
    )


def lines(one: Standing, output: str) -> Iterator[str]:
    """Yields what people are told of it. `output`: where the run writes."""
    what = "slicebench's own proxy, beside each worker" if one.is_ours else "beside each worker"
    yield f"{one.name}, {what}" + (f", in a container: {one.image}" if one.image else ", as a process")
    if one.image:
        yield _asks(one.asks)
    for place, key in one.keys.items():
        yield f"encrypts what is written to {'any other bucket' if place == EVERY else place}, with {key}"
    if one.encrypts is not None and EVERY not in one.keys:
        yield _ALL_ELSE if one.keys else "encrypts nothing: everything passes through as it is"
    if one.old_keys:
        yield f"also reads what was encrypted with {', '.join(one.old_keys)}"
    if one.encrypts is None:
        yield "whether it encrypts is not known here"
    if not output.startswith("gs://"):
        yield f"the output, {output}, is not in a bucket: nothing written there goes through it"
    yield f"{_listens(one.ports)}; is ready once {one.up_once}"
    if one.certificates:
        yield f"shares the folder {one.certificates} with the workers"
    if one.workload_env:
        yield f"gives the workers {', '.join(one.workload_env)}"


def _asks(asked: Mapping[str, str]) -> str:
    told = [f"{asked['cpu']} processors"] if "cpu" in asked else []
    told += [f"{int(asked['memory']) / 2**20:g} MiB of memory"] if "memory" in asked else []
    return f"its container asks for {' and '.join(told) or 'no processors and no memory'}"


def _listens(ports: Mapping[str, int | None]) -> str:
    if not ports:
        return "its port is not known here"
    if not any(ports.values()):
        return f"listens on free loopback ports, for {', '.join(ports)}"
    return f"listens on {', '.join(f'{port} for {whom}' for whom, port in ports.items())}"


def _up_once(sidecar: Sidecar, certificates: str | None) -> str:
    known = {"certificates": certificates} if certificates else {}
    kind, _, where = filled(sidecar.ready, known).partition("://")
    _, slash, path = where.partition("/")
    within = f", within {sidecar.ready_s:g} s"
    if kind == "file":
        return f"{where} is there{within}"
    if kind == "http":
        return f"it answers {slash}{path} with 200{within}"
    return f"it takes connections{within}"
