"""`slicebench workload create`: any command on the slices of a cluster, checked before it is submitted.

It imports what its flags need, and no more: most of them are plain, and then neither pydantic nor httpx is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.cli.workload_flags import fields_of, one_cluster, parsed
from flows.cli.workload_image import image_named, with_image
from flows.said import print_json, say, surely
from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.quoting import quoted

if TYPE_CHECKING:
    from argparse import Namespace

    from tasks.cloud.kubernetes import Kubernetes
    from tasks.cloud.kubernetes_gke import GkeName
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.stages.workload_create import Submitted, Wanted
    from tasks.targets.kube_submission import Submission


def create(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code. Raises BadInput before anything was made, KubernetesError."""
    try:
        told = parsed(words)
    except SystemExit as help_was_shown:
        return int(help_was_shown.code or 0)
    if told.verbose:
        from flows.calls import tell_calls

        tell_calls(say)
    limit_s = _wait_limit(told)
    config = _config(told)
    wanted = _wanted(told, config)
    from tasks.leases.opening import the_ledger
    from tasks.stages import workload_create as stage
    from tasks.stages import workload_lease

    asked = stage.submission_of(wanted, config)
    stage.check_offline(config, asked)
    if told.dry_run:
        return _show_manifest(config, asked, as_json=told.json)
    kube, gke, grows = _cluster(config)
    ledger, intent = the_ledger(), workload_lease.intent(kube, config, gke, asked, time.time())
    stage.clear(kube, ledger, intent, say)
    try:
        stage.check(kube, config, asked, say, grows)
    except BadInput as error:
        from flows.cli.workload_model import in_flags

        raise in_flags(error) from None
    asked = with_image(told, config, asked)
    with _held_back() as heard:
        made = stage.submit(kube, config, asked, ledger, intent)
    flags = _flags(told)
    if told.wait and not heard:
        code, why = _waited(told, kube, config, made, asked, flags, limit_s)
        _tell(told, config, made, asked, gke, flags, code, why)
        return code
    _tell(told, config, made, asked, gke, flags, None)
    return ExitCode.INTERRUPTED if heard else ExitCode.DONE


def _config(told: Namespace) -> GkeTargetConfig:
    """Returns the target that the flags make, on top of a target file where one is named."""
    one_cluster(told)
    fields = fields_of(told)
    if told.target is None and "type" not in fields:
        raise BadInput("--type is missing", fix="say what it runs on: --type v5litepod-16, or --type cpu")
    if told.context:
        from tasks.config.gke_plain import plain

        if (config := plain(fields)) is not None:
            return config
    from flows.cli.workload_model import modelled

    return modelled(told.target, told.cluster, told.location, told.project, fields)


def _wanted(told: Namespace, config: GkeTargetConfig) -> Wanted:
    from tasks.config.envfile import refused_in_pods, resolve_env
    from tasks.stages.workload_create import Wanted, generated_name
    from tasks.stages.workload_lease import DEADLINE_S

    if told.name and told.workload and told.name != told.workload:
        raise BadInput("two names are given", fix="leave --workload out")
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or "workload"
    env, hidden = resolve_env(told.env, told.env_file, os.environ)
    if wrong := refused_in_pods(env):
        raise BadInput(wrong)
    return Wanted(
        name=told.name or told.workload or config.workload_name or generated_name(config, user),
        image=image_named(told, config),
        command=_command(told, config),
        env=env,
        secrets={name: env[name] for name in hidden if name in env},
        owner=f"{user}-{os.uname().nodename}",
        deadline_s=None if told.deadline == "none" else config.limits.workload_s or DEADLINE_S,
    )


def _command(told: Namespace, config: GkeTargetConfig) -> Sequence[str]:
    from tasks.targets.kube_command import argv_of

    headless = config.pathways is not None and config.pathways.headless
    if (told.command is not None) + bool(told.words) != (0 if headless else 1):
        if headless:
            raise BadInput("a headless Pathways runs no command", fix="leave it out")
        raise BadInput("say one command", fix="--command 'LINE', or at the end -- WORDS")
    try:
        words = argv_of(told.command) if told.command is not None else list(told.words)
    except ValueError as error:
        raise BadInput(f"--command: {error}", fix="close the quotation") from None
    if not words and not headless:
        raise BadInput("--command is empty")
    return words


def _cluster(config: GkeTargetConfig) -> tuple[Kubernetes, GkeName | None, bool | None]:
    """Returns the cluster, its name at GKE, and whether GKE adds machines to it by itself; None: nobody here knows."""
    from tasks.cloud.kubernetes import Kubernetes
    from tasks.cloud.kubernetes_plain import PlainWire, plain_enough

    grows = None
    if config.context is not None:
        from tasks.cloud.kubernetes_config import by_context

        access, gke = by_context(config.context, config.kubeconfig, config.namespace), None
    else:
        from tasks.targets.gke_access import reach_target

        reached = reach_target(config)
        access, gke = reached.access, reached.gke
        if reached.there is not None:
            from tasks.targets.gke_fits import grows as grows_by_itself

            grows = grows_by_itself(config, reached.there)
    if plain_enough(access):
        return Kubernetes(access, wire=PlainWire), gke, grows
    return Kubernetes(access), gke, grows


@contextmanager
def _held_back() -> Iterator[list[int]]:
    """Within, signals to end are only noted: whether it was made is known a moment later, and told then."""
    heard: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, lambda got, frame: heard.append(got))
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_limit(told: Namespace) -> int | None:
    if told.wait_limit is None:
        return None
    if not told.wait:
        raise BadInput("--wait-limit does nothing without --wait", fix="add --wait")
    if told.wait_limit < 1:
        raise BadInput("--wait-limit must be a second or more", fix="say --no-wait to wait for nothing")
    return int(told.wait_limit)


def _waited(
    told: Namespace,
    kube: Kubernetes,
    config: GkeTargetConfig,
    made: Submitted,
    asked: Submission,
    flags: str,
    limit_s: int | None,
) -> tuple[int, str]:
    from flows.cli.workload_wait import waited
    from runtime.contract.redaction import Redaction

    redact = Redaction(asked.secrets.values())
    return waited(kube, config, made, flags, limit_s, quiet=told.json, redact=redact)


def _tell(
    told: Namespace, config: GkeTargetConfig, made: Submitted, asked: Submission, gke: GkeName | None, flags: str,
    code: int | None, why: str = "",
) -> None:  # fmt: skip
    links = _links(config, made, gke)
    if told.json:
        ended = {} if code is None else {"exit_code": code, **({"error": why} if why else {})}
        with surely(f"workload {made.name} was submitted"):
            print_json(
                {"workload": made.name, "uid": made.uid, "namespace": config.namespace, "image": asked.image,
                 "lease": made.lease_id, "expires_at": made.expires_at, "links": dict(links), **ended}
            )  # fmt: skip
        return
    if code is not None:
        return
    with surely(f"workload {made.name} was submitted"):
        print(made.name)
    say(f"submitted to {config.context or flags}; it runs on without us{_how_long(asked.deadline_s)}")
    if asked.sidecar is not None:
        say(f"  {_unwatched(asked.sidecar.name)}")
    for label, link in links:
        say(f"  see {label}: {link}")
    for word in ("explain", "logs", "delete"):
        say(f"  next: slicebench workload {word} {made.name}{' --follow' if word == 'logs' else ''} {flags}")


def _how_long(deadline_s: int | None) -> str:
    if deadline_s is None:
        return ", until its program ends: nothing else ends it"
    from tasks.config.duration import in_words

    return f", for {in_words(deadline_s)} at most once it has its turn (--deadline)"


def _unwatched(sidecar: str) -> str:
    """Returns what nobody sees to: Kubernetes starts what is never up again and again, and its pods go on waiting."""
    return (
        f"its program begins once {sidecar} is up; if that never happens, it keeps its hardware all the same: "
        "check with the first of these commands, or submit with --wait, which reports it"
    )


def _links(config: GkeTargetConfig, made: Submitted, gke: GkeName | None) -> list[tuple[str, str]]:
    from tasks.cloud.kubernetes_config import gke_of

    where = (gke.project, gke.location, gke.cluster) if gke else gke_of(config.context or "")
    if where is None:
        return []
    from tasks.explain.kube_links import GkePlace, cluster_link, logs_link, metrics_link

    place = GkePlace(*where, config.namespace)
    return [
        ("cluster", cluster_link(place)),
        ("metrics", metrics_link(place)),
        ("logs", logs_link(place, made.name)),
    ]


def _flags(told: Namespace) -> str:
    names = ("context", "kubeconfig", "cluster", "location", "project", "target", "namespace")
    return " ".join(f"--{name} {quoted(getattr(told, name))}" for name in names if getattr(told, name))


def _show_manifest(config: GkeTargetConfig, asked: Submission, *, as_json: bool) -> int:
    import yaml

    from tasks.targets.kube_jobset import jobset

    if as_json:
        print_json(jobset(config, asked))
        return ExitCode.DONE
    print(yaml.safe_dump(jobset(config, asked), sort_keys=False, allow_unicode=True), end="")
    return ExitCode.DONE
