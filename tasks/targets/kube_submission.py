"""What is submitted to Kubernetes beside the target's config: name, image, command, environment, labels, deadline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.contract.sidecar import Sidecar

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON holds it."""

_BEFORE_ITS_OWN = r"\$(?=[$(])"


@dataclass(frozen=True)
class Submission:
    """One JobSet. `image` is by digest; `command` an argv, empty for the image's own entrypoint.

    `secrets` are variables whose values go into a Secret and nowhere else. `fields` are variables with the pod's own
    data: name → path, as `metadata.labels['jobset.sigs.k8s.io/job-index']`. `labels` are those of the lease, for
    all that is made. `deadline_s`: the cluster ends the workload so long after it was admitted; None: the config's.
    `sidecar` stands beside each worker; `supervised`: a supervisor of ours gives them its variables.
    `once`: whoever follows it makes another JobSet of it where it is to begin again, and the cluster does not.
    """

    name: str
    image: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    deadline_s: int | None = None
    once: bool = False
    sidecar: Sidecar | None = None
    supervised: bool = False

    @property
    def secret_files(self) -> Mapping[str, str]:
        """The sidecar's secret files: key in the Secret → content, in their order."""
        files = self.sidecar.files.values() if self.sidecar else ()
        return {f"sidecar-{number}": content for number, content in enumerate(files)}

    @property
    def kept(self) -> Mapping[str, str]:
        """All that the Secret holds."""
        return {**self.secrets, **self.secret_files}

    @property
    def secret_name(self) -> str:
        """The name of the Secret with the values of `secrets`."""
        return f"{self.name}-env"


@dataclass
class Parts:
    """What stands beside the workers in their pods, or is added to each of them."""

    env: dict[str, str | Object] = field(default_factory=dict)
    mounts: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    sidecars: list[Object] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def add(self, other: Parts) -> None:
        """Takes over another's."""
        self.env |= other.env
        self.mounts += other.mounts
        self.volumes += other.volumes
        self.sidecars += other.sidecars
        self.annotations |= other.annotations


def given(**fields: Any) -> Object:
    """Returns the fields that say something: an API server takes null for a wrong type, and {} for a wish."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [], ())}


def literal(text: str) -> str:
    """Returns text so that a container gets it as it is, though Kubernetes puts in $(NAME), and reads $$ as $."""
    return re.sub(_BEFORE_ITS_OWN, "$$", text) if "$" in text else text


def from_field(path: str) -> Object:
    """Returns the source of a variable: a field of the pod, as `metadata.name`."""
    return {"fieldRef": {"fieldPath": path}}


def label(name: str) -> str:
    """Returns the path of one of the pod's labels."""
    return f"metadata.labels['{name}']"


def annotation(name: str) -> str:
    """Returns the path of one of the pod's annotations."""
    return f"metadata.annotations['{name}']"


def variables(*sources: Mapping[str, str | Object]) -> list[Object]:
    """Returns a container's variables: text, or where it comes from. Of one name the last source's is taken, once."""
    merged: dict[str, str | Object] = {}
    for source in sources:
        for name, value in source.items():
            merged.pop(name, None)  # one that refers to others comes after them
            merged[name] = value
    return [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in merged.items()
    ]


def literals(env: Mapping[str, str]) -> dict[str, str | Object]:
    """Returns variables whose values are meant as they are written."""
    return {name: literal(value) for name, value in env.items()}
