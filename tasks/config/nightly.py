"""Model of the files in configs/nightly/: what is measured every night, where, in which versions, and who is told."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from runtime.contract.errors import BadInput
from runtime.contract.metrics import METRICS
from tasks.config import duration, patterns
from tasks.config.request import RunRequest
from tasks.config.source import Words, resolve_source

_STRICT = ConfigDict(extra="forbid", frozen=True)
_WORDS = Words("pinned", "write jax: nightly, or x.y.z", "name theirs: {jax: nightly, jax_index: …}")


def _quoted(given: Any) -> Any:
    """Refuses what YAML took for a number: 0.10 is none that anybody could tell from 0.1."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        raise ValueError(f"{given} is a number: put the version in quotes, '0.10.0'")
    return given


class Version(BaseModel):
    """One version under test: which JAX and which Orbax. With `against` it is measured in turns with another one."""

    model_config = _STRICT

    label: str = Field("", pattern=patterns.LABEL, description="What reports call it; made of the rest")
    jax: Annotated[str, BeforeValidator(_quoted, json_schema_input_type=str)] = Field(
        "pinned", description="JAX: pinned, newest, nightly or x.y.z"
    )
    jax_index: str | None = Field(None, description="Package index of JAX nightlies")
    repo: str | None = Field(None, description="Orbax: repository URL (a fork, say) or local path")
    branch: str | None = Field(None, description="… at this branch")
    pr: int | None = Field(None, gt=0, description="… at this pull request")
    commit: str | None = Field(None, description="… at this commit")
    against: str | None = Field(
        None,
        description="Branch to compare with in the same night on the same hardware, in turns; pinned: the lock's",
    )
    rounds: int = Field(5, ge=3, le=20, description="With against: how many runs of each, in turns")

    @model_validator(mode="after")
    def _makes_sense(self) -> Version:
        given = [name for name in ("pr", "branch", "commit", "repo") if getattr(self, name) is not None]
        if self.against and not given:
            raise ValueError("against needs something to compare: add pr, branch, commit or repo")
        if not self.against and "rounds" in self.model_fields_set:
            raise ValueError("rounds are for a version that is measured against another one: add against")
        try:
            resolve_source(RunRequest(suite="-", **self.request_fields), _WORDS)
            resolve_source(RunRequest(suite="-", **self.other_fields), _WORDS)
        except BadInput as error:
            raise ValueError("; ".join(str(problem) for problem in error.problems)) from None
        return self

    @property
    def name(self) -> str:
        """What it is called: its label, else what it is."""
        if self.label:
            return self.label
        parts = [] if self.jax == "pinned" else [self.jax if self.jax.isalpha() else f"jax-{self.jax}"]
        for key in ("pr", "branch", "commit"):
            if (value := getattr(self, key)) is not None:
                parts.append(f"{key}-{str(value)[:12]}")
        if self.repo and not (self.branch or self.pr or self.commit):
            parts.append(self.repo.rstrip("/").rpartition("/")[2])
        return re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-") or "pinned"

    @property
    def request_fields(self) -> dict[str, Any]:
        """The fields of a RunRequest that say so."""
        return {
            "jax_version": "locked" if self.jax == "pinned" else self.jax,
            "jax_index": self.jax_index,
            "repo": self.repo,
            "branch": self.branch,
            "pr": self.pr,
            "commit": self.commit,
        }

    @property
    def other_fields(self) -> dict[str, Any]:
        """The same of what it is measured against."""
        none: dict[str, Any] = {"repo": None, "branch": None, "pr": None, "commit": None}
        other = {} if self.against in (None, "pinned") else {"repo": self.repo, "branch": self.against}
        return self.request_fields | none | other


def _version(given: Any) -> Any:
    """Makes a word of a list of versions what it stands for."""
    return {"jax": given} if isinstance(given, str) else _quoted(given)


VersionOrWord = Annotated[Version, BeforeValidator(_version, json_schema_input_type=Version | str)]


class Which(BaseModel):
    """Some cells of the matrix: those of this suite, target and version, as far as they are named."""

    model_config = _STRICT

    suite: str | None = None
    target: str | None = None
    version: str | None = Field(None, description="Label of a version")

    @model_validator(mode="after")
    def _names_something(self) -> Which:
        if self.suite is None and self.target is None and self.version is None:
            raise ValueError("it would leave out everything: name a suite, target or version")
        return self


class More(BaseModel):
    """One cell beside the matrix."""

    model_config = _STRICT

    suite: str = Field(min_length=1)
    target: str = Field("local", min_length=1)
    version: VersionOrWord = Field(default_factory=lambda: Version.model_validate({}))


class Limits(BaseModel):
    """How long things may take."""

    model_config = _STRICT

    cell: str = Field("4h", pattern=duration.PATTERN, description="One run, from its start to its results")
    night: str = Field("12h", pattern=duration.PATTERN, description="All: nothing is begun after that")
    stop: str = Field("10m", pattern=duration.PATTERN, description="A run that is ended, to give all back")
    at_once: int = Field(4, ge=1, le=64, description="Runs at once, on different hardware")


class Webhook(BaseModel):
    """Where alerts are sent as JSON. Its address may be a secret, so it stands elsewhere."""

    model_config = _STRICT

    url_env: str | None = Field(
        None, pattern=patterns.VARIABLE, description="Environment variable that holds the URL"
    )
    url_file: str | None = Field(None, min_length=1, description="File that holds it")
    format: str = Field("json", pattern=patterns.FORMAT, description="json: all of it; slack: one text")

    @model_validator(mode="after")
    def _one_place(self) -> Webhook:
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("say where the URL is: url_env or url_file, one of them")
        return self


class Alerts(BaseModel):
    """Who is told of what got worse, did not run, or recovered."""

    model_config = _STRICT

    webhooks: tuple[Webhook, ...] = ()
    events: bool = Field(True, description="Also as events of Prefect, where a server is up")


class NightlyConfig(BaseModel):
    """A matrix of suites, targets and versions, and what holds for every night of it."""

    model_config = _STRICT

    name: str = Field(
        pattern=patterns.NIGHTLY, description="Begins the names of its runs, and stands in the history"
    )
    timezone: str = Field("UTC", description="Whose date a night has, e.g. America/Los_Angeles")
    suites: tuple[str, ...] = Field((), description="Names in configs/suites/, or paths from this file on")
    targets: tuple[str, ...] = Field(("local",), description="Names in configs/targets/, or paths from here")
    versions: tuple[VersionOrWord, ...] = Field(
        (Version.model_validate({}),), description="pinned, newest, nightly, x.y.z of JAX, or a mapping"
    )
    exclude: tuple[Which, ...] = Field((), description="Cells of the matrix to leave out")
    include: tuple[More, ...] = Field((), description="Cells beside the matrix")
    set: tuple[str, ...] = Field((), description="Overrides of all suites, KEY=VALUE")
    env: tuple[str, ...] = Field((), description="Environment of all workers, KEY=VALUE or KEY")
    env_file: tuple[str, ...] = Field((), description="Files of such lines")
    wait_for_lock: str = Field(
        "1h", pattern=duration.PATTERN, description="Wait so long for hardware that another run uses"
    )
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}))
    elsewhere: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Targets to try, in order, in place of one that has no room"
    )
    budget: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="US dollars a night; what could exceed it is not begun",
    )
    prices: str | None = Field(None, description="A table of prices in place of slicebench's own")
    thresholds: Mapping[str, float] = Field(
        default_factory=dict,
        description="Smallest change of a metric that counts, as a fraction: time_s: 0.05",
    )
    output: str | None = Field(None, description="Folder for runs and nights: a path or gs://…")
    history: str | None = Field(None, description="Folder of the history: a path or gs://…")
    site: bool | str = Field(
        True,
        description="Where pages of all series are written: true: series/ in the output; false: nowhere; a path or gs://…",
    )
    alerts: Alerts = Field(default_factory=lambda: Alerts.model_validate({}))

    nested: ClassVar[Mapping[str, type[BaseModel]]] = {
        "versions": Version,
        "version": Version,
        "exclude": Which,
        "include": More,
        "limits": Limits,
        "alerts": Alerts,
        "webhooks": Webhook,
    }

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone, such as America/Los_Angeles or UTC") from None
        return name

    @field_validator("thresholds")
    @classmethod
    def _of_metrics(cls, given: Mapping[str, float]) -> Mapping[str, float]:
        for metric, least in given.items():
            if metric not in METRICS:
                raise ValueError(f"there is no metric {metric!r}, but {', '.join(_JUDGED)} and others")
            if not 0 < least < 1:
                raise ValueError(f"{metric} must be a fraction such as 0.05, not {least:g}")
        return given


_JUDGED = tuple(name for name, metric in METRICS.items() if metric.headline)
