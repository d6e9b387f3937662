"""Checks of a target, before any suite is known: hosts that are dialled, and Cloud TPU with what it asks for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import BadInput
from tasks.cloud.container_transport import ENDPOINT_VARIABLE as CONTAINER_ENDPOINT
from tasks.cloud.tpu_transport import ENDPOINT_VARIABLE as TPU_ENDPOINT
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.doctor import Check, Finding, Status
from tasks.stages.named_image import look_at_image

if TYPE_CHECKING:
    from tasks.cloud.tpu import CloudTpu
    from tasks.config.sidecar import Encryption

_CONNECT_S = 5.0
_HOSTS_S = 90.0


def target_checks(name: str, config: Any) -> list[Check]:
    """Returns the checks of a target by its model; the local one's are about GPUs and its Python."""
    encryption = config.encryption
    told = [] if encryption is None else [Check("encryption", lambda: look_at_keys(encryption), 5.0)]
    return [*_checks(name, config), *told]


def look_at_keys(encryption: Encryption) -> list[Finding]:
    """Which buckets are encrypted by which keys; key files must be here, and nobody else's to read."""
    from tasks.targets.beside import key_files

    found = [
        Finding("encryption", "wrong", problem.what, problem.fix or "") for problem in key_files(encryption)
    ]
    if not encryption.enabled:
        found.append(Finding("encryption", "warning", "enabled: false, so everything passes as it is"))
    for place, key in encryption.by_place.items():
        where = "every bucket" if place == "*" else f"gs://{place.removeprefix('gs://')}"
        found.append(Finding("encryption", "fine", f"what workers write to {where} gets {key}"))
    return found


def _checks(name: str, config: Any) -> list[Check]:
    if isinstance(config, SshTargetConfig):
        return [Check("hosts", lambda: look_at_hosts(config), _HOSTS_S)]
    if isinstance(config, TpuVmTargetConfig):
        tunnels = [Check("iap", lambda: look_at_way(config), 40.0)] if config.addresses == "iap" else []
        return [
            Check("credentials", lambda: look_at_credentials(TPU_ENDPOINT), 15.0),
            Check("cloud tpu", lambda: look_at_tpu(config), 60.0),
            *tunnels,
        ]
    if isinstance(config, GkeTargetConfig):
        image = config.image
        images = [Check("image", lambda: look_at_image(image), 15.0)] if image else []
        if config.cluster is None:
            return [Check("cluster", lambda: look_at_cluster(config), 30.0), *images]
        return [
            Check("credentials", lambda: look_at_credentials(CONTAINER_ENDPOINT), 15.0),
            Check("cluster", lambda: look_at_cluster(config), 60.0),
            *images,
        ]
    return [Check("target", lambda: look_at_local(name, config), 70.0)]


def look_at_local(name: str, config: LocalTargetConfig) -> list[Finding]:
    """Whether there are GPUs, where they are asked for, and whether workers can run in the Python that is named."""
    from tasks.targets import local_gpus, local_python

    found = [Finding("target", "fine", f"{name} ({config.kind}) is this machine")]
    if config.platform == "gpu":
        count = local_gpus.usable(os.environ)
        told = f"a run may use {count} GPU{'' if count == 1 else 's'} here"
        found.append(Finding("gpu", "fine" if count else "wrong", told, "" if count else "nvidia-smi"))
    if config.python is not None:
        problems = local_python.faults(config)
        for problem in problems:
            why = f" ({problem.why})" if problem.why else ""
            found.append(Finding("target's python", "wrong", f"{problem.what}{why}", problem.fix))
        if not problems:
            found.append(Finding("target's python", "fine", f"workers can run in {config.python}"))
    return found


def look_at_cluster(config: GkeTargetConfig) -> list[Finding]:
    """What the API says of a cluster that is named, or a cluster behind a context of a workload on it."""
    if config.cluster is not None:
        from tasks.stages.doctor_clusters import look_at_named

        return look_at_named(config)
    from tasks.targets.gke import GkeTarget

    found = []
    for problem in GkeTarget(config).looked_over("doctor"):
        how: Status = "wrong" if problem.severity == "error" else "warning"
        why = f" ({problem.why})" if problem.why else ""
        found.append(Finding("cluster", how, f"{problem.what}{why}", problem.fix))
    told = f"{config.slices} x {config.shape} could be submitted through {config.context}"
    return found or [Finding("cluster", "fine", told)]


def look_at_hosts(config: SshTargetConfig) -> list[Finding]:
    """Dials every host: key, host key, Python, versions, disk; and whether they are alike."""
    from tasks.cloud.ssh import Pool
    from tasks.cloud.ssh_errors import SshError
    from tasks.targets import ssh_plan, ssh_preflight
    from tasks.targets.interpreter import wanted

    names = wanted(config)
    hosts = [ssh_plan.host_of(config, host) for host in config.hosts]
    pool = Pool(connect_s=_CONNECT_S)
    try:
        answers = ssh_preflight.look(pool, hosts, config.output)
    finally:
        pool.close()
    found = []
    answered = {}
    for host, answer in answers.items():
        if isinstance(answer, SshError):
            found.append(Finding(f"host {host}", "wrong", f"{answer.what} ({answer.reason})", answer.fix))
            continue
        answered[host] = answer
        versions = ", ".join(
            f"{package} {version}"
            for package, version in sorted(answer["versions"].items())
            if package in ("python", *names)
        )
        told = (
            f"answers; its host key fits; {versions or 'no versions'}; {answer['disk'] / 2**30:.1f} GiB free"
        )
        found.append(Finding(f"host {host}", "fine", told))
    lacking = ssh_preflight.missing_packages(answered, names)
    for problem in (*lacking, *ssh_preflight.differences(answered)):
        found.append(Finding("hosts", "wrong", problem.what, problem.fix))
    return found


def look_at_credentials(variable: str) -> list[Finding]:
    """Whether Google credentials are found here, and where from; they are not tried out.

    `variable` is the environment's that leads to a stand-in, which needs none.
    """
    if endpoint := os.environ.get(variable):
        return [Finding("credentials", "fine", f"none are needed: {variable} is {endpoint}")]
    from google.auth.exceptions import GoogleAuthError

    from tasks.cloud.google_login import google_login

    login = "gcloud auth application-default login"
    try:
        credentials = google_login()
    except GoogleAuthError as error:
        return [Finding("credentials", "wrong", f"no Google credentials are found: {error}", login)]
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    source = f"from {file} (GOOGLE_APPLICATION_CREDENTIALS)" if file else "application default credentials"
    return [Finding("credentials", "fine", f"{type(credentials).__name__}, {source}")]


def look_at_tpu(config: TpuVmTargetConfig) -> list[Finding]:
    """Whether the target's project and zones are known, and what Cloud TPU's API says of them."""
    from tasks.cloud.google_place import choose_project, choose_zone
    from tasks.cloud.timing import Timing
    from tasks.cloud.tpu import CloudTpu

    try:
        project = choose_project(config.project)
        anywhere = config.existing is not None
        zones = list(config.zones) or ([] if anywhere else [choose_zone().value])
    except BadInput as error:
        problem = error.problems[0]
        return [Finding("project and zone", "wrong", problem.what, problem.fix)]
    source = "the target file" if config.project else project.source
    told = f"project {project.value} (from {source}), zones {', '.join(zones) or 'all'}"
    tpu = CloudTpu(project.value, timing=Timing(try_s=5.0, total_s=12.0))
    found = [Finding("project and zone", "fine", told)]
    if config.existing is not None:
        return [*found, *look_at_existing(tpu, config, config.existing)]
    for zone in zones:
        found += look_at_zone(tpu, project.value, zone, config)
    return found


def look_at_zone(tpu: CloudTpu, project: str, zone: str, config: TpuVmTargetConfig) -> list[Finding]:
    """What the API says of one zone, by the checks that a run makes as well."""
    from tasks.targets.tpu_preflight import zone_problems

    name = f"zone {zone}"
    problems = zone_problems(tpu, config, zone)
    found = [
        Finding(name, "wrong" if one.severity == "error" else "warning", one.what, one.fix)
        for one in problems
    ]
    if not worst_of(found):
        found.insert(0, Finding(name, "fine", f"the API answers, lets us look, and offers {config.type}"))
    what = "how much quota is left, and whether we may make things: the API tells only when it is asked to"
    fix = f"gcloud quotas info list --service=tpu.googleapis.com --project={project}"
    found.append(Finding(name, "unknown", what, fix))
    return found


def look_at_existing(tpu: CloudTpu, config: TpuVmTargetConfig, name: str) -> list[Finding]:
    """What the API says of a TPU that is used and not made, by the checks that a run makes as well."""
    from tasks.targets.tpu_preflight import standing_problems

    found = [
        Finding(name, "wrong" if one.severity == "error" else "warning", one.what, one.fix)
        for one in standing_problems(tpu, config, name)
    ]
    return found or [Finding(name, "fine", f"it is there, READY, and {config.type} as the target says")]


def look_at_way(config: TpuVmTargetConfig) -> list[Finding]:
    """Whether this machine has what tunnels to workers need."""
    from tasks.targets.tpu_preflight import way_problems

    found = [Finding("iap", "wrong", one.what, one.fix) for one in way_problems(config)]
    return found or [Finding("iap", "fine", "gcloud is there, and somebody is logged in to it")]


def worst_of(findings: Sequence[Finding]) -> bool:
    """Says whether anything is wrong: warnings and what cannot be known are not."""
    return any(finding.status == "wrong" for finding in findings)
