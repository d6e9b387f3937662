"""What stands beside the workers of a target, as supervisors are told of it, and as manifests record it."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.contract.braces import literally
from runtime.contract.errors import BadInput, Problem
from runtime.contract.keymap import EVERY, KMS, KeyMap, KeyRef, parse_key_map
from runtime.contract.sidecar import STORE_VARIABLES, Sidecar
from tasks.config.sidecar_in_pods import ENCRYPTION

if TYPE_CHECKING:
    from tasks.config.sidecar import Encryption, SidecarConfig, WithSidecar

_URL = "http://127.0.0.1:{port}"
_KEY_MAP = "GCP_KMS_BUCKET_KEY_MAPPING"
"""By which our proxy and go-gcsproxy are told which bucket has which key."""
_OFF = "GCS_PROXY_DISABLE_ENCRYPTION"
"""By which, not empty, both are told to encrypt nothing."""
_RUN = "{run}"
"""What each run of an acceptance has for itself."""
_OTHERS_MAY = 0o077
_LARGEST_KEY_FILE = 1 << 16


def beside(config: WithSidecar, *, elsewhere: bool) -> Sidecar | None:
    """Returns what stands beside each worker, or None. `elsewhere`: key files go to the workers' hosts with it.

    Raises BadInput for a key file that is not there, or that others may read.
    """
    if config.encryption is not None:
        return _proxy(config.encryption, elsewhere)
    return None if config.sidecar is None else _other(config.sidecar)


def recorded(config: WithSidecar) -> str:
    """Returns what manifests record of it (JSON): of keys their names; empty: nothing stands there.

    `series` tells numbers apart that must not be compared.
    """
    encryption, other = config.encryption, config.sidecar
    if encryption is not None:
        keys = {place: key.uri for place, key in _places(encryption)} if encryption.enabled else {}
        kinds = {"Cloud KMS" if uri.startswith(KMS) else "a key file" for uri in keys.values()}
        series = f"encrypted by {' and '.join(sorted(kinds))}" if keys else "proxy without encryption"
        return json.dumps({"name": ENCRYPTION, "series": series, "keys": keys})
    if other is not None:
        series = f"{other.name} ({other.image})" if other.image else other.name
        return json.dumps({"name": other.name, "series": series, "keys": {}})
    return ""


def uncovered(encryption: Encryption, output: str) -> str:
    """Returns why what a run writes to its output would not be encrypted, though that is asked for; empty: it would."""
    if not encryption.enabled or not output.startswith("gs://"):
        return ""
    if _has_key(encryption.key_map, output):
        return ""
    known = ", ".join(encryption.by_place)
    return f"{output} is in no place that encryption: has a key for ({known}){_before_run(output)}"


def unmapped(sidecar: SidecarConfig, output: str) -> str:
    """Returns the same of a program that is told its keys as go-gcsproxy is; empty: nothing says that it would not."""
    if sidecar.env.get(_OFF):
        return f"sidecar {sidecar.name} is told to encrypt nothing ({_OFF}={sidecar.env[_OFF]})"
    text = sidecar.env.get(_KEY_MAP, "")
    if not text or "{" in text or not output.startswith("gs://"):
        return ""
    try:
        has_key = _has_key(parse_key_map(text), output)
    except BadInput as error:
        return f"{_KEY_MAP} of sidecar {sidecar.name}: {error.problems[0].what}"
    if has_key:
        return ""
    why = f"{output} is in no place that {_KEY_MAP} of sidecar {sidecar.name} has a key for"
    return why + _before_run(output)


def _has_key(key_map: KeyMap, output: str) -> bool:
    bucket, _, prefix = output.removeprefix("gs://").partition("/")
    name = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    # What {run} will stand for nobody knows yet, and no key is for a place that is called so.
    return key_map.key(bucket, name.partition(_RUN)[0]) is not None


def _before_run(output: str) -> str:
    """Returns what a refusal says more of a place with {run} in it."""
    return f", whatever {_RUN} will be: what stands before it decides" if _RUN in output else ""


def key_files(encryption: Encryption) -> list[Problem]:
    """Returns what is wrong with the key files that are named, which lie here."""
    problems: list[Problem] = []
    for key in encryption.all_keys:
        if key.path is not None:
            try:
                _content(key)
            except BadInput as error:
                problems += error.problems
    return problems


def _proxy(encryption: Encryption, elsewhere: bool) -> Sidecar:
    carried = {key.uri: key for key in encryption.all_keys if key.path is not None and elsewhere}

    def told(key: KeyRef) -> str:
        if key.path is None:
            return key.uri
        if key.uri in carried:
            return f"file:{{files}}/{literally(key.path.name)}"
        return literally(f"file:{key.path}")

    command = ["{python}", "-m", "runtime.gcs_proxy", "--listen", "127.0.0.1:{port}"]
    command += ["--admin", "{address}:{admin}", "--upstream", "{store}", "--login", "{lend}"]
    if carried:
        command += ["--key-files", "{held}"]
    for old in encryption.all_keys[len(encryption.key_map.keys) :]:
        command += ["--old-key", told(old)]
    if not encryption.enabled:
        command += ["--no-encryption"]
    if encryption.face == "forward":
        command += ["--certificates", "{certificates}", "--forward", "127.0.0.1:{forward}"]
        for host in encryption.allow:
            command += ["--allow", host]
    return Sidecar(
        name=ENCRYPTION,
        command=command,
        # What the host says to other proxies of these names is not meant for this one.
        env={
            _KEY_MAP: ",".join(f"{literally(place)}:{told(key)}" for place, key in _places(encryption)),
            _OFF: "",
            "PROXY_CERT_PATH": "",
            "SSL_INSECURE": "",
            "DEBUG_LEVEL": "0",
        },
        workload_env={
            **dict.fromkeys(STORE_VARIABLES, _URL),
            # gcsfs would look for a service of Google's, over gRPC, at the port of the proxy.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            **(_forward() if encryption.face == "forward" else {}),
        },
        ready="http://127.0.0.1:{admin}/readyz",
        files={key.path.name: _content(key) for key in carried.values() if key.path is not None},
        guards=encryption.enabled,
    )


def _forward() -> dict[str, str]:
    """Returns what leads programs to the forward face that heed no address of a store. gcsfs, which knows no proxy,
    and what else heeds one, goes by that: both faces are one proxy."""
    trusted = "{certificates}/ca-bundle.pem"
    names = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "TENSORSTORE_CA_BUNDLE")
    return {
        **dict.fromkeys(("https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:{forward}"),
        "grpc_proxy": "",  # or JAX's own connections would go there
        **dict.fromkeys(names, trusted),
    }


def _other(config: SidecarConfig) -> Sidecar:
    ready, at = config.ready, "127.0.0.1:{port}"
    if ready.port is not None:
        at = f"127.0.0.1:{ready.port}"
    where = (
        f"file://{ready.file}" if ready.file else f"http://{at}{ready.path}" if ready.path else f"tcp://{at}"
    )
    return Sidecar(
        name=config.name,
        command=config.command,
        env=dict(config.env),
        workload_env=dict(config.workload_env),
        ready=where,
        ready_s=ready.within_s,
        port=config.port,
        guards=True,
        image=config.image or "",
        certificates=config.certificates or "",
    )


def _places(encryption: Encryption) -> list[tuple[str, KeyRef]]:
    return [
        (bucket if bucket == EVERY or not prefix else f"{bucket}/{prefix}", key)
        for bucket, prefix, key in encryption.key_map.entries
    ]


def _content(key: KeyRef) -> str:
    """Returns what a key file holds. Raises BadInput where nobody should, or cannot, rely on it."""
    path = key.path
    assert path is not None
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"the key file {path} is no regular file", fix="name a keyset of Tink, in JSON")
        if status.st_size > _LARGEST_KEY_FILE:
            raise BadInput(f"{path} is too large for a key file", fix="name a keyset of Tink, in JSON")
        content = path.read_text()
        fields = json.loads(content)
    except OSError as error:
        what = f"the key file {path} cannot be read: {error.strerror}"
        makes = f"python -m runtime.gcs_proxy new-key {path} makes one"
        fix = makes if isinstance(error, FileNotFoundError) else "name a keyset of Tink, in JSON"
        raise BadInput(what, fix=fix) from error
    except ValueError:
        raise BadInput(f"{path} is no key file", fix="name a keyset of Tink, in JSON") from None
    if not isinstance(fields, Mapping) or "key" not in fields:
        raise BadInput(f"{path} is no key file", fix="name a keyset of Tink, in JSON")
    if status.st_mode & _OTHERS_MAY:
        raise BadInput(f"others may read the key file {path}", fix=f"chmod 600 {path}")
    return content
