"""Model of the files in configs/acceptance/: what trains where, beside which sidecars, and what that may cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from runtime.contract.braces import unknown_word
from tasks.config import duration, patterns
from tasks.config.envfile import looks_secret
from tasks.config.sidecar import BESIDE, Encryption, SidecarConfig

_STRICT = ConfigDict(extra="forbid", frozen=True)


class Variant(BaseModel):
    """One way in which training reaches the store: with this beside each worker, in place of what the target has."""

    model_config = _STRICT

    name: str = Field(pattern=patterns.NIGHTLY, description="What reports call it; a part of its runs' names")
    encryption: Encryption | None = Field(None, description="slicebench's own proxy; see targets")
    sidecar: SidecarConfig | None = Field(None, description="Any other program; see targets")
    encrypts: bool | None = Field(
        None,
        description="Whether what it writes must not be the plaintext; default: what `encryption` says, else no",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Variant:
        if self.encryption is not None and self.sidecar is not None:
            raise ValueError("encryption: and sidecar: are two variants: give each its own name")
        if self.encrypts and self.is_base:
            raise ValueError("encrypts: nothing that could encrypt stands beside the workers of this variant")
        if self.encryption is not None and self.encrypts not in (None, self.encryption.enabled):
            raise ValueError(f"encrypts: encryption: says {_word(self.encryption.enabled)}: leave it out")
        return self

    @property
    def is_base(self) -> bool:
        """Whether nothing stands between workers and store: what the others are held against."""
        return self.encryption is None and self.sidecar is None

    @property
    def is_encrypting(self) -> bool:
        """Whether its checkpoints must come out encrypted."""
        if self.encryption is not None:
            return self.encryption.enabled
        return bool(self.encrypts)

    @property
    def beside(self) -> Mapping[str, Any]:
        """The part of a target that says so."""
        return {
            name: given.model_dump(mode="json", exclude_unset=True)
            for name, given in (("encryption", self.encryption), ("sidecar", self.sidecar))
            if given is not None
        }


class Program(BaseModel):
    """Somebody's own training program, as a workload of a target of kind gke. It resumes by itself from what it saved.

    In its words and its environment {checkpoints} stands for where it is to save, {run} for what each run has to
    itself; other words in braces are meant as they stand when braces are doubled.
    """

    model_config = _STRICT

    image: str = Field(pattern=patterns.IMAGE, description="Its image; pods get its digest")
    command: tuple[str, ...] = Field(min_length=1, description="Words of its command")
    env: Mapping[str, str] = Field(default_factory=dict, description="Its environment; no secrets")
    checkpoints: str = Field(
        min_length=1,
        description="Folder with a folder for each step: gs://…; {run} in it stands for what each run has for itself",
    )
    after: int = Field(
        4, ge=0, le=1000, description="Checkpoints that it saves after the restart, before it is ended"
    )
    loss: str | None = Field(
        None, description="Regular expression that finds losses in its log, with groups step and loss"
    )

    @field_validator("checkpoints")
    @classmethod
    def _one_for_each(cls, given: str) -> str:
        if "{run}" not in given:
            raise ValueError(
                "it needs {run} in it: a run that begins must find no checkpoints of another one"
            )
        return given

    @field_validator("command", "env", "checkpoints")
    @classmethod
    def _known_words(cls, given: Any, of: ValidationInfo) -> Any:
        known = ("run",) if of.field_name == "checkpoints" else ("checkpoints", "run")
        texts = (
            given.values() if isinstance(given, Mapping) else (given,) if isinstance(given, str) else given
        )
        if wrong := next(filter(None, (unknown_word(text, known) for text in texts)), ""):
            raise ValueError(wrong)
        return given

    @field_validator("env")
    @classmethod
    def _plain(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        if told := next((name for name in given if looks_secret(name)), None):
            raise ValueError(
                f"{told} sounds like a secret, which must not be in a file: set it where the image starts"
            )
        return given

    @field_validator("loss")
    @classmethod
    def _finds(cls, given: str | None) -> str | None:
        try:
            groups = set(re.compile(given or "").groupindex)
        except re.error as error:
            raise ValueError(f"it is no regular expression: {error}") from None
        if given is not None and not {"step", "loss"} <= groups:
            raise ValueError("it needs two groups, (?P<step>…) and (?P<loss>…)")
        return given

    @model_validator(mode="after")
    def _is_told(self) -> Program:
        told = (*self.command, *self.env.values())
        if not any(name in text for text in told for name in ("{checkpoints}", "{run}")):
            raise ValueError(
                "checkpoints: nothing tells the program: write {checkpoints} into command: or env:"
            )
        return self


class Limits(BaseModel):
    """How long things may take."""

    model_config = _STRICT

    run: str = Field("4h", pattern=duration.PATTERN, description="One run, from its start to its results")
    all: str = Field("24h", pattern=duration.PATTERN, description="All of them: nothing is begun after that")
    stop: str = Field("10m", pattern=duration.PATTERN, description="A run that is ended, to give all back")


class AcceptanceConfig(BaseModel):
    """Training that is stopped and started again under each variant, on one target."""

    model_config = _STRICT

    name: str = Field(pattern=patterns.ACCEPTANCE, description="Begins the names of its runs")
    target: str = Field("local", min_length=1, description="A name in configs/targets/, or a path from here")
    training: Annotated[
        Annotated[str, Field(min_length=1), Tag("name")] | Annotated[Program, Tag("program")],
        Discriminator(lambda given: "program" if isinstance(given, Program | Mapping) else "name"),
    ] = Field(
        "training",
        description="A suite that trains: a name in configs/suites/, or a path; or a program of your own, on kind: gke",
    )
    output: str | None = Field(None, description="Folder for runs: a path or gs://…; checkpoints go there")
    checkpoints: int = Field(3, ge=1, le=1000, description="Complete checkpoints after which it is stopped")
    limit: float = Field(
        0.05,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="What saves and restores may cost more than those of the base, a fraction",
    )
    repeats: int = Field(1, ge=1, le=20, description="Runs of each variant, in turns")
    reference: bool = Field(
        True, description="Also train without a stop: what losses after a restart are held against"
    )
    variants: tuple[Variant, ...] = Field(description="One of them, and no other, without any sidecar")
    set: tuple[str, ...] = Field((), description="Overrides of the suite, KEY=VALUE")
    env: tuple[str, ...] = Field((), description="Environment of all workers, KEY=VALUE or KEY")
    env_file: tuple[str, ...] = Field((), description="Files of such lines")
    wait_for_lock: str = Field(
        "1h", pattern=duration.PATTERN, description="Wait so long for hardware that another run uses"
    )
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}))

    nested: ClassVar[Mapping[str, type[BaseModel]]] = {
        "variants": Variant,
        "training": Program,
        "limits": Limits,
        **BESIDE,
    }

    @field_validator("limit", mode="before")
    @classmethod
    def _fraction(cls, given: Any) -> Any:
        if isinstance(given, int | float) and not isinstance(given, bool) and 1 <= given <= 100:
            raise ValueError(f"it is a fraction, write {given / 100:g} for {given:g} %")
        return given

    @model_validator(mode="after")
    def _makes_sense(self) -> AcceptanceConfig:
        for wrong in self._contradictions():
            raise ValueError(wrong)
        return self

    @property
    def base(self) -> Variant:
        """The variant that others are held against."""
        return next(one for one in self.variants if one.is_base)

    def _contradictions(self) -> Iterator[str]:
        names = [one.name for one in self.variants]
        if twice := next((name for n, name in enumerate(names) if name in names[:n]), None):
            yield f"variants: two are called {twice}: give each its own name"
        bases = [one.name for one in self.variants if one.is_base]
        if not bases:
            yield "variants: one must have no sidecar, for the others to be compared with: add {name: no-proxy}"
        if len(bases) > 1:
            yield f"variants: {' and '.join(bases)} are alike: both have no sidecar, and one is enough"
        if len(self.variants) == 1 and bases:
            yield "variants: there is nothing to compare with the base: add one with encryption: or sidecar:"
        seen: dict[str, str] = {}
        if isinstance(self.training, Program) and (self.set or self.env or self.env_file):
            yield "training: is a program, whose environment is its own: leave set:, env: and env_file: out"
        for one in self.variants:
            same = seen.setdefault(json.dumps(one.beside, sort_keys=True), one.name)
            if same != one.name and not one.is_base:
                yield f"variants: {same} and {one.name} are alike but for their names: leave one out"


def _word(enabled: bool) -> str:
    return "that all is encrypted" if enabled else "that nothing is"
