"""What stands beside each worker of a target: the encrypting proxy (`encryption:`), or any program (`sidecar:`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from runtime.contract.braces import unknown_word
from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyMap, KeyRef, parse_key, parse_key_map
from tasks.config import patterns, size
from tasks.config.envfile import looks_secret, set_in_pods_by, wrong_variable
from tasks.config.gke_fields import Processors

_FORBID = ConfigDict(extra="forbid", frozen=True)
_WORDS = ("address", "admin", "certificates", "forward", "port", "python", "store")
"""What is filled in of a sidecar's texts, in braces; see runtime/contract/sidecar.py."""
_Folder = Annotated[str, Field(pattern=patterns.FOLDER_TO_MOUNT)]


def _key(text: str) -> str:
    if "," in text:
        raise ValueError(f"{text!r} has a comma in it, which no key may have")
    try:
        parse_key(text)
    except BadInput as error:
        raise ValueError(_said(error)) from None
    return text


def _variables(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if wrong := wrong_variable(name, value):
            raise ValueError(", ".join(part for part in (*wrong[:2], "leave it out") if part))
        if who := set_in_pods_by(name):
            raise ValueError(f"{name} is set by {who}, leave it out")
    if told := next((name for name in env if looks_secret(name)), None):
        raise ValueError(
            f"{told} sounds like a secret, which a file keeps: give --env {told}, which the sidecar gets too"
        )
    return {name: _known_words(value) for name, value in env.items()}


def _known_words(text: str) -> str:
    if wrong := unknown_word(text, _WORDS):
        raise ValueError(wrong)
    return text


_Text = Annotated[str, AfterValidator(_known_words)]

_Key = Annotated[str, AfterValidator(_key)]
_Variables = Annotated[Mapping[str, str], AfterValidator(_variables)]


class Encryption(BaseModel):
    """The proxy of docs/gcs_proxy.md beside each worker: what workers write to these places is encrypted."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    # An attribute `keys` would make a mapping of the model for `dict`, by which Prefect looks into it.
    by_place: Mapping[str, str] = Field(
        default_factory=dict,
        alias="keys",
        description="BUCKET, BUCKET/PREFIX or '*' → projects/P/locations/L/keyRings/R/cryptoKeys/K, or "
        "file:/path/to/key.json, which lies here",
    )
    old_keys: tuple[_Key, ...] = Field(
        (), description="Keys that objects may still be wrapped by, for reading only"
    )
    enabled: bool = Field(True, description="Whether anything is encrypted; if not, all passes through")
    face: Literal["reverse", "forward"] = Field(
        "reverse",
        description="How workers are led to it: by its address, or as well by https_proxy and certificates, for "
        "programs that know a proxy alone",
    )
    allow: tuple[Annotated[str, Field(pattern=patterns.ONE_WORD)], ...] = Field(
        (), description="Hosts that workers may reach besides by face: forward, HOST, HOST:PORT or *.DOMAIN"
    )
    cpu: Processors | None = Field(
        None,
        description="Processors that it asks for in pods; not given: 250m where the target has workers ask for some",
    )
    memory: str | None = Field(
        None,
        pattern=size.PATTERN,
        description="Memory that it asks for in pods; not given: 128MiB where the target has workers ask for some",
    )

    @field_validator("by_place")
    @classmethod
    def _is_a_map(cls, keys: Mapping[str, str]) -> Mapping[str, str]:
        for place, key in keys.items():
            if "," in place:
                raise ValueError(f"{place!r} has a comma in it, which the proxy's key map cannot have")
            _key(key)
        if keys:
            try:
                parse_key_map(_as_text(keys))
            except BadInput as error:
                raise ValueError(_said(error)) from None
        return keys

    @model_validator(mode="after")
    def _does_something(self) -> Encryption:
        if self.enabled and not self.by_place:
            raise ValueError(
                "keys: names no bucket, so nothing would be encrypted: write keys: {my-bucket: projects/…}"
            )
        return self

    @model_validator(mode="after")
    def _allows_by_a_proxy(self) -> Encryption:
        if self.allow and self.face != "forward":
            raise ValueError("allow: is for face: forward, without which workers reach all hosts")
        return self

    @property
    def key_map(self) -> KeyMap:
        """Which objects get which key, whether or not that is enabled."""
        return parse_key_map(_as_text(self.by_place)) if self.by_place else KeyMap()

    @property
    def all_keys(self) -> tuple[KeyRef, ...]:
        """Every key that the proxy is given."""
        return tuple(dict.fromkeys((*self.key_map.keys, *map(parse_key, self.old_keys))))


class Readiness(BaseModel):
    """How it is seen that a sidecar is up; one of them. Not given: its port takes connections."""

    model_config = _FORBID

    path: Annotated[_Text, Field(pattern=patterns.URL_PATH)] | None = Field(
        None, description="Path at its port that is answered with 200"
    )
    port: int | None = Field(None, gt=0, lt=65536, description="Port that takes connections")
    file: Annotated[_Text, Field(pattern=patterns.SIDECAR_FILE)] | None = Field(
        None, description="File that is there"
    )
    within_s: float = Field(
        60.0, gt=0, le=3600, allow_inf_nan=False, description="How long that may take, seconds"
    )

    @model_validator(mode="after")
    def _only_one(self) -> Readiness:
        if (self.path is not None and self.file is not None) or (
            self.port is not None and self.file is not None
        ):
            raise ValueError("file: is enough by itself: leave path: and port: out")
        return self


class SidecarConfig(BaseModel):
    """Any program beside each worker. In its texts {port}, {certificates}, {store} and other words are filled in."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.DNS_LABEL, description="What it is called")
    image: str | None = Field(
        None, pattern=patterns.IMAGE, description="Its image in pods; not given: the workers' own"
    )
    command: tuple[_Text, ...] = Field(
        (), description="Words of its command; in pods, where none are given, its image's own"
    )
    env: _Variables = Field(default_factory=dict, description="Its environment; no secrets")
    port: int | None = Field(
        None,
        gt=0,
        lt=65536,
        description="Where it listens, in pods at {address}; not given: {port} is a free one",
    )
    certificates: _Folder | None = Field(
        None, description="Folder in pods that it shares with the workers; {certificates} elsewhere, too"
    )
    cpu: Processors | None = Field(
        None, description="Processors that it asks for in pods, as 2 or 500m; not given: none"
    )
    memory: str | None = Field(
        None, pattern=size.PATTERN, description="Memory that it asks for in pods, as 512MiB; not given: none"
    )
    ready: Readiness = Field(
        default_factory=lambda: Readiness.model_validate({}), description="How it is seen that it is up"
    )
    workload_env: _Variables = Field(
        default_factory=dict, description="What the workers get, such as https_proxy: http://127.0.0.1:9080"
    )

    @model_validator(mode="after")
    def _is_something(self) -> SidecarConfig:
        if self.image is None and not self.command:
            raise ValueError("say what to run: command: […]; in pods image:, or both")
        return self


BESIDE: Mapping[str, type[BaseModel]] = {
    "encryption": Encryption,
    "sidecar": SidecarConfig,
    "ready": Readiness,
}
"""The models of these keys, wherever they stand in a target."""


class WithSidecar(BaseModel):
    """The part of a target that says what stands beside its workers."""

    encryption: Encryption | None = Field(
        None, description="Encrypts what workers write to Cloud Storage: a proxy beside each worker"
    )
    sidecar: SidecarConfig | None = Field(None, description="Any other program beside each worker")

    @model_validator(mode="after")
    def _one_of_them(self) -> Any:
        if self.encryption is not None and self.sidecar is not None:
            raise ValueError(
                "encryption: and sidecar: would both stand between workers and storage: leave one out"
            )
        if getattr(self, "kind", "") != "gke":
            key, one = ("encryption", self.encryption) if self.encryption else ("sidecar", self.sidecar)
            if one is not None and (one.cpu or one.memory):
                raise ValueError(f"{key}: cpu: and memory: are asked for in pods alone: leave them out")
        if self.sidecar is None:
            return self
        if getattr(self, "kind", "") != "gke" and not self.sidecar.command:
            raise ValueError("sidecar: has an image, which only pods can run: add command: […] to it")
        if getattr(self, "kind", "") == "local" and self.sidecar.port and getattr(self, "workers", 1) > 1:
            raise ValueError(
                "sidecar: has one port for several workers of one machine: leave port: out and write {port} "
                "in its place, or take workers: 1"
            )
        return self


def _as_text(keys: Mapping[str, str]) -> str:
    return ",".join(f"{place}:{key}" for place, key in keys.items())


def _said(error: BadInput) -> str:
    problem = error.problems[0]
    return f"{problem.what}: {problem.fix}" if problem.fix else problem.what
