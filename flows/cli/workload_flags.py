"""The flags of `slicebench workload create`, and what they are as fields of a target.

A parser of its own, by the standard library: this command is through in less time than the other commands' parser takes
to be imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NoReturn

from runtime.contract.errors import BadInput

_WHERE = "Which cluster: one of --context, --cluster and --target"
_USAGE = (
    "slicebench workload create [NAME] (--context C | --cluster C | --target T) --type TYPE … "
    "(--command LINE | -- WORDS …)"
)

_WIDE = 80


class _Parser(argparse.ArgumentParser):
    typed: Sequence[str] = ()
    """What it parses."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(self._in_our_words(message), fix="see slicebench workload create --help")

    def _in_our_words(self, message: str) -> str:
        if message.startswith("unrecognized arguments: "):
            return _unknown(message.partition(": ")[2].split(" "))
        if not message.startswith("argument "):
            return message
        names, _, told = message.removeprefix("argument ").partition(": ")
        typed = {word.partition("=")[0] for word in self.typed}
        flag = next((name for name in names.split("/") if name in typed), names.split("/")[0])
        if told.startswith("invalid int value: "):
            given = told.partition(": ")[2].strip("'")
            return f"{flag} must be a whole number, not {given}"
        if not told.startswith("expected one argument"):
            return f"{flag}: {told}"
        after = self.typed[self.typed.index(flag) + 1 :] if flag in self.typed else ()
        if after and after[0].startswith("-") and after[0] not in self._option_string_actions:
            return f"{flag} needs a value, and {after[0]} looks like a flag: write {flag}={after[0]} if it is none"
        return f"{flag} needs a value"


def _unknown(words: Sequence[str]) -> str:
    """Says of words that are nothing known what they may have been meant for."""
    from runtime.contract.nearest import nearest

    if (wrong := next((word for word in words if word.startswith("--")), None)) is None:
        return f"nothing is known to be done with: {' '.join(words)}"
    near = nearest(wrong.partition("=")[0], flags())
    return f"Unknown option: {wrong.partition('=')[0]}{f', did you mean {near}' if near else ''}"


def one_cluster(told: object) -> None:
    """Raises BadInput unless exactly one cluster is named: by context, cluster or target."""
    places = [f"--{flag}" for flag in ("context", "cluster", "target") if getattr(told, flag)]
    if len(places) != 1:
        raise BadInput(
            f"{' and '.join(places)} name a cluster each" if places else "no cluster is named",
            fix="say one of --context, --cluster and --target",
        )


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Returns the flags; `words` of it are what stands behind `--`. Raises BadInput, SystemExit for --help."""
    own, _, rest = _parted(words)
    # For each flag it is told of, argparse asks how wide the terminal is, unless it knows.
    made = parser(None if {"--help", "-h"} & set(own) else _WIDE)
    made.typed = own
    told = made.parse_args(own)
    told.words = rest
    return told


def flags() -> Collection[str]:
    """Returns all flags, as they are typed."""
    return parser(_WIDE)._option_string_actions


def _parted(words: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in words:
        return list(words), False, []
    at = list(words).index("--")
    return list(words[:at]), True, list(words[at + 1 :])


def parser(wide: int | None = None) -> _Parser:
    """Returns the parser. xpk's names of flags are taken besides ours where they differ.

    `wide`: how many letters a line of its help has; None: as the terminal.
    """
    made = _Parser(
        prog="slicebench workload create", usage=_USAGE, allow_abbrev=False,
        formatter_class=partial(argparse.HelpFormatter, width=wide),
        description="Run any command on the slices of a cluster, as one JobSet.",
    )  # fmt: skip
    add = made.add_argument
    add("name", nargs="?", help="Name of the JobSet; default: a new one, which is printed")
    add("--workload", help=argparse.SUPPRESS)
    add(
        "--command",
        help="Command line that each worker runs in bash; or give -- WORDS, to run them without a shell",
    )
    _add_where(made.add_argument_group(_WHERE).add_argument)
    _add_hardware(made.add_argument_group("What it runs on, and when").add_argument)
    _add_image(
        made.add_argument_group("The image: an existing one, or a folder added to a base image").add_argument
    )
    _add_pods(made.add_argument_group("Its pods").add_argument)
    _add_ends(made.add_argument_group("How it ends").add_argument)
    return made


def _add_where(add: Any) -> None:
    add("--context", help="Context of your kubeconfig; the current one is never assumed")
    add("--kubeconfig", help="Kubeconfig file; default: $KUBECONFIG, or ~/.kube/config")
    add("--cluster", help="Name of a GKE cluster")
    add("--location", "--zone", help="Its zone or region, if several clusters have the name")
    add("--project", help="Its project; default: from the environment or gcloud")
    add("--target", help="Target of kind gke: its cluster, and every setting that no flag gives")
    add("--namespace", help="Namespace; default: the target's, or default")


def _add_hardware(add: Any) -> None:
    add(
        "--type",
        "--tpu-type",
        "--device-type",
        dest="type",
        help="Accelerator type of one slice, e.g. v5litepod-16, l4-8",
    )
    add("--topology", help="Topology of a TPU slice, if its size has several")
    add("--slices", "--num-slices", type=int, help="Number of slices of that type; default: 1")
    add("--nodes", "--num-nodes", type=int, help="Hosts of one slice, for GPUs and for --type cpu")
    add("--containers-per-host", type=int, help="Workers on each host, which share its chips")
    add("--priority", help="Priority class; default: medium; none: the cluster's default")
    add("--queue", help="LocalQueue of Kueue; default: multislice-queue; none: no queue")
    add("--scheduler", help="Scheduler of the pods; default: that of Kubernetes")


def _add_image(add: Any) -> None:
    add("--docker-image", "--image", dest="docker_image", help="Existing image; pods get its digest")
    add(
        "--script-dir",
        help="Folder to copy to /app, except what .dockerignore names; default: the current one",
    )
    add(
        "--base-image",
        "--base-docker-image",
        dest="base_image",
        help="Image that the folder is added to; default: a slim Python image",
    )
    add("--repository", help="Where to push that image: HOST/PATH; default: $SLICEBENCH_REPOSITORY")
    add(
        "--image-pull-secret",
        "--docker-image-pull-secret",
        dest="image_pull_secret",
        help="Secret for the image's registry",
    )


def _add_pods(add: Any) -> None:
    add(
        "--container-name",
        "--docker-name",
        dest="container_name",
        help="Name of the container; default: worker",
    )
    add(
        "--env",
        action="append",
        default=[],
        help="NAME=VALUE; or NAME alone for your own value, kept in a Secret (repeat the flag)",
    )
    add(
        "--env-file",
        action="append",
        default=[],
        help="File of such lines, in Docker's format (repeat the flag)",
    )
    add("--service-account", "--sa", dest="service_account", help="Kubernetes service account of the pods")
    add("--ramdisk-directory", help="Folder in the hosts' memory: GKE's RAM disk")
    add("--mtc-enabled", action="store_true", help="Use GKE's multi-tier checkpointing for that folder")
    add("--debug-dump-gcs", help="Folder of a bucket for XLA dumps, written even if the worker fails")
    add("--enable-ops-agent", action="store_true", help="Send the hosts' metrics to Cloud Monitoring")


def _add_ends(add: Any) -> None:
    add(
        "--max-restarts",
        type=int,
        help="How often to restart after a failure, preemptions not counted; default: 0",
    )
    add("--restart-on-exit-codes", help="… also after these exit codes, e.g. 1,3-5; default: signals and 42")
    add("--restart-on-user-code-failure", action="store_true", help="… after every exit code")
    add(
        "--deadline", type=_length_or_none,
        help="The cluster ends it this long after admission: 90m, 4h; none: never; default: 24h",
    )  # fmt: skip
    add("--grace", type=_length, help="Time from SIGTERM to SIGKILL; default: 30s")
    add(
        "--termination-grace-period-seconds",
        dest="grace",
        type=_seconds_of_xpk,
        help="The same, as xpk has it",
    )
    add("--ttl", type=_length, help="How long to keep it after its end; default: 12h")
    add("--ttl-seconds-after-finished", dest="ttl", type=_seconds_of_xpk, help="The same, as xpk has it")
    add("--wait", action=argparse.BooleanOptionalAction, default=False,
        help="Show what its workers write, and exit with its code; Ctrl-C leaves it running")  # fmt: skip
    add("--wait-limit", type=_length, help="Stop waiting after this long, with exit code 3; it keeps running")
    add("--dry-run", action="store_true", help="Print the JobSet; create nothing, contact no cluster")
    add("--json", action="store_true", help="Print one JSON object on stdout")
    add("--verbose", action="store_true", help="Show every call to a service outside")


def fields_of(told: argparse.Namespace) -> dict[str, Any]:
    """Returns what was said as fields of a target file, and nothing that was not said. Raises BadInput."""
    plain = (
        "context", "kubeconfig", "namespace", "type", "topology", "slices", "nodes", "containers_per_host", "scheduler",
        "image_pull_secret", "container_name", "service_account", "max_restarts",
    )  # fmt: skip
    fields: dict[str, Any] = {name: getattr(told, name) for name in plain if getattr(told, name) is not None}
    for name in ("priority", "queue"):
        if (value := getattr(told, name)) is not None:
            fields[name] = None if value == "none" else value
    if told.restart_on_exit_codes is not None:
        fields["restart_exit_codes"] = told.restart_on_exit_codes
    if told.restart_on_user_code_failure:
        fields["restart_on_user_code_failure"] = True
    if told.mtc_enabled and told.ramdisk_directory is None:
        raise BadInput("--mtc-enabled says how --ramdisk-directory is kept", fix="say both")
    if told.ramdisk_directory is not None:
        by = {"by": "multi_tier"} if told.mtc_enabled else {}
        fields["ramdisk"] = {"directory": told.ramdisk_directory, **by}
    if told.debug_dump_gcs is not None:
        fields["debug_dump"] = {"to": told.debug_dump_gcs}
    if told.enable_ops_agent:
        fields["ops_agent"] = {}
    if limits := _limits(told):
        fields["limits"] = limits
    return fields


def _length(text: str) -> int:
    """Returns the seconds of a length of time."""
    from tasks.config import duration

    try:
        return round(duration.seconds(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _length_or_none(text: str) -> int | str:
    return text if text == "none" else _length(text)


def _seconds_of_xpk(text: str) -> int:
    """Returns the seconds of flags that have them in their name: a number alone, as xpk takes it, is enough there."""
    return int(text) if text.isdecimal() else _length(text)


def _limits(told: argparse.Namespace) -> dict[str, int | None]:
    given = {"workload_s": "deadline", "termination_grace_s": "grace", "ttl_s": "ttl"}
    said = {field: getattr(told, flag) for field, flag in given.items() if getattr(told, flag) is not None}
    return {field: None if length == "none" else length for field, length in said.items()}
