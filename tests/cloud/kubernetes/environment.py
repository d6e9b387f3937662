"""What a container's process gets: its command, its variables, its folders; names of pods stand for this machine."""

from __future__ import annotations

import base64
import fnmatch
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes.processes import MARK
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


class Missing(Exception):
    """A Secret, a ConfigMap or a key that a container needs is not there."""


@dataclass(frozen=True)
class Prepared:
    """A process to start."""

    argv: list[str]
    env: dict[str, str]
    folder: Path
    mark: str


def prepare(world: World, pod: Obj, container: dict[str, Any]) -> Prepared:
    """Returns what to start for a container."""
    meta = pod["metadata"]
    mark = f"{world.mark}:{meta['uid']}:{container['name']}:"
    folder = world.folder / "pods" / meta["uid"]
    mounts = _mounts(world, pod, container, folder)
    python = Path(world.settings.python)
    env = {
        "PATH": f"{python.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(_made(folder / "home")),
        "TMPDIR": str(_made(folder / "tmp")),
        "LANG": "C.UTF-8",
        "HOSTNAME": pod["spec"].get("hostname") or meta["name"],
        **world.settings.image_env,
    }
    given = _variables(world, pod, container)
    if world.settings.tpu_env:
        given = {**_tpu(pod, container), **given}
    ports = world.ports(pod)
    env |= {name: _local(pod, value, mounts, ports) for name, value in given.items()}
    words = [*(container.get("command") or _entrypoint(world, container)), *(container.get("args") or [])]
    argv = [_local(pod, _expanded(one, given), mounts, ports) for one in words] or ["sleep", "infinity"]
    if argv[0] in ("python", "python3"):
        argv[0] = str(python)
    found = shutil.which(argv[0], path=env["PATH"]) if "/" not in argv[0] else argv[0]
    if not found:
        raise FileNotFoundError(
            f'failed to create containerd task: exec: "{argv[0]}": executable file not found in $PATH'
        )
    env[MARK] = mark
    inside = container.get("workingDir")
    local = Path(_local(pod, inside, mounts, ports)) if inside else folder / "work"
    return Prepared(
        [found, *argv[1:]], env, _made(local if local.is_relative_to(folder) else folder / "work"), mark
    )


def _entrypoint(world: World, container: dict[str, Any]) -> list[str]:
    known = world.settings.entrypoints
    return next((argv for one, argv in known.items() if fnmatch.fnmatch(container["image"], one)), [])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _local(pod: Obj, text: str, mounts: dict[str, Path], ports: Mapping[int, int]) -> str:
    """Returns a text for a process of this machine.

    The names of pods (`<jobset>-<job>-<i>-<p>.<subdomain>`) cannot be resolved here, where all pods are processes of
    one machine: they become 127.0.0.1, with the port that they had. Nobody can mount anything either: paths below a
    mounted volume become those of a folder of the pod. Each pod has a loopback of its own: the ports of its sidecars
    there become others, which no other pod has.
    """
    for port, own in ports.items():
        text = re.sub(rf"(?<![\w.])(127\.0\.0\.1|0\.0\.0\.0):{port}(?!\d)", rf"\g<1>:{own}", text)
    subdomain = pod["spec"].get("subdomain")
    if subdomain:
        space = re.escape(pod["metadata"]["namespace"])
        tail = rf"\.{re.escape(subdomain)}(\.{space}(\.svc(\.cluster\.local)?)?)?(?![\w.-])"
        text = re.sub(rf"(?<![\w.-])[a-z0-9][a-z0-9-]*{tail}", "127.0.0.1", text)
    for path, folder in sorted(mounts.items(), reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", str(folder), text)
    return text


def _expanded(text: str, env: dict[str, str]) -> str:
    """Returns an argument with `$(NAME)` replaced, and `$$` for a dollar."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)",
        lambda match: "$" if match[0] == "$$" else env.get(match[1], match[0]),
        text,
    )


def _variables(world: World, pod: Obj, container: dict[str, Any]) -> dict[str, str]:
    env: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind in ("secretRef", "configMapRef"):
            if reference := source.get(kind):
                data = _data(world, pod, kind.removesuffix("Ref"), reference)
                env |= {source.get("prefix", "") + key: value.decode() for key, value in data.items()}
    for one in container.get("env") or []:
        if "valueFrom" not in one:
            env[one["name"]] = _expanded(str(one.get("value", "")), env)
        else:
            value = _from(world, pod, container, one["valueFrom"])
            if value is not None:
                env[one["name"]] = value
    return env


def _from(world: World, pod: Obj, container: dict[str, Any], source: dict[str, Any]) -> str | None:
    if field := source.get("fieldRef"):
        return _field(pod, field["fieldPath"])
    if amount := source.get("resourceFieldRef"):
        kind, _, name = amount["resource"].partition(".")
        return str(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))
    for kind in ("secret", "configMap"):
        if reference := source.get(f"{kind}KeyRef"):
            data = _data(world, pod, kind, reference)
            if reference["key"] in data:
                return data[reference["key"]].decode()
            if not reference.get("optional"):
                space = pod["metadata"]["namespace"]
                raise Missing(
                    f"couldn't find key {reference['key']} in {kind.title()} {space}/{reference['name']}"
                )
    return None


def _field(pod: Obj, path: str) -> str:
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path in ("status.podIP", "status.hostIP"):
        return "127.0.0.1"
    found: Any = pod
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return str(found)


def _data(world: World, pod: Obj, kind: str, reference: dict[str, Any]) -> dict[str, bytes]:
    found = world.store.get(f"{kind.lower()}s", pod["metadata"]["namespace"], reference["name"])
    if found is None:
        if reference.get("optional"):
            return {}
        raise Missing(f'{kind.lower()} "{reference["name"]}" not found')
    data = found.get("data") or {}
    if kind == "secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    return {key: str(value).encode() for key, value in data.items()}


def _mounts(world: World, pod: Obj, container: dict[str, Any], folder: Path) -> dict[str, Path]:
    volumes = {one["name"]: one for one in pod["spec"].get("volumes") or []}
    mounts = {}
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        place = _made(folder / "volumes" / mount["name"])
        if host := volume.get("hostPath"):
            place = Path(host["path"])  # of this machine, which is every node's
        for kind, named in (("secret", "secretName"), ("configMap", "name")):
            if source := volume.get(kind):
                found = _data(world, pod, kind, {**source, "name": source[named]})
                wanted = {one["path"]: found[one["key"]] for one in source.get("items") or ()} or found
                for key, value in wanted.items():
                    (place / key).unlink(missing_ok=True)
                    (place / key).write_bytes(value)
                    (place / key).chmod(source.get("defaultMode", 0o644))
        mounts[mount["mountPath"].rstrip("/")] = place / mount.get("subPath", "")
    return mounts


def _tpu(pod: Obj, container: dict[str, Any]) -> dict[str, str]:
    """Returns what GKE's webhook adds to containers that ask for TPU chips."""
    limits = (container.get("resources") or {}).get("limits") or {}
    labels = pod["metadata"].get("labels") or {}
    index = labels.get("batch.kubernetes.io/job-completion-index")
    if "google.com/tpu" not in limits or index is None:
        return {}
    selector = pod["spec"].get("nodeSelector") or {}
    topology = selector.get("cloud.google.com/gke-tpu-topology", "")
    job, subdomain = labels.get("job-name", ""), pod["spec"].get("subdomain", "")
    chips = 1
    for side in filter(None, topology.split("x")):
        chips *= int(side)
    hosts = max(1, chips // max(1, int(limits["google.com/tpu"])))
    names = ",".join(f"{job}-{one}.{subdomain}" for one in range(hosts))
    return {"TPU_WORKER_ID": index, "TPU_WORKER_HOSTNAMES": names, "TPU_TOPOLOGY": topology}
