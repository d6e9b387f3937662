"""What the pods of a JobSet take of their nodes, as Kubernetes' scheduler and Kueue count it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.cloud.kubernetes_labels import EXCLUSIVE, HOST
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import Object, metadata, number, spec


@dataclass(frozen=True)
class Asked:
    """The pods of one replicated job: `jobs` of `pods` each, of which each takes `each`, by resource, in bytes and
    whole processors. `apart`: a label of nodes of which each job has a value to itself. `template` is a pod's.
    """

    group: str
    jobs: int
    pods: int
    each: Mapping[str, float]
    template: Object
    apart: str = ""

    @property
    def in_all(self) -> int:
        """How many pods there are."""
        return self.jobs * self.pods

    @property
    def alone(self) -> bool:
        """Whether each pod wants a node without another of its own."""
        affinity = spec(self.template).get("affinity") or {}
        terms = (affinity.get("podAntiAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        return any(term.get("topologyKey") == HOST for term in terms or ()) or self.apart == HOST


def asked_by(jobset: Object) -> Sequence[Asked]:
    """Returns what a JobSet asks for."""
    whole = (metadata(jobset).get("annotations") or {}).get(EXCLUSIVE, "")
    found = []
    for one in spec(jobset).get("replicatedJobs") or ():
        job = one.get("template") or {}
        apart = (metadata(job).get("annotations") or {}).get(EXCLUSIVE, whole)
        template = spec(job).get("template") or {}
        jobs, pods = number(one.get("replicas", 1)), number(spec(job).get("parallelism", 1))
        found.append(Asked(str(one.get("name")), jobs, pods, taken_by(template), template, apart))
    return found


def taken_by(template: Object) -> Mapping[str, float]:
    """Returns what a pod takes of its node: its containers and sidecars together, or its largest beginning."""
    beside: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for one in spec(template).get("initContainers") or ():
        own = _of(one)
        if one.get("restartPolicy") == "Always":
            beside.update(own)
            own = Counter()
        for name, more in (beside + own).items():
            first[name] = max(first[name], more)
    for one in spec(template).get("containers") or ():
        beside.update(_of(one))
    return {name: max(beside[name], first[name]) for name in beside | first}


def in_words(resource: str, much: float) -> str:
    """Returns an amount of a resource for people."""
    if resource == "memory":
        return f"{much / 2**30:.4g} GiB of memory"
    return f"{much:.4g} {resource}"


def _of(container: Object) -> Counter[str]:
    """Returns what a container asks for: where it says only what it may have at most, that."""
    told = container.get("resources") or {}
    wanted = {**(told.get("limits") or {}), **(told.get("requests") or {})}
    return Counter({name: amount(much) for name, much in wanted.items()})
