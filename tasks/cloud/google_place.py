"""Which Google Cloud project and zone: as told, else from the environment, else from gcloud's configuration."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput

_PROJECT = ("SLICEBENCH_PROJECT", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
_LETTERS = re.compile(r"[a-z]|ai\d+[a-z]")
"""What a zone's name ends with, behind its region."""
_ZONE = ("SLICEBENCH_ZONE", "CLOUDSDK_COMPUTE_ZONE")


@dataclass(frozen=True)
class Chosen:
    """A value, and where it comes from, for people."""

    value: str
    source: str


def region_of(place: str) -> str:
    """Returns the region of a zone, or the region that it is."""
    region, _, last = place.rpartition("-")
    return region if _LETTERS.fullmatch(last) else place


def choose_project(
    told: str | None,
    environ: Mapping[str, str] = os.environ,
    *,
    how: str = "write project: in the target, give --project",
) -> Chosen:
    """Returns the project. Raises BadInput when nobody names one; `how` says where to."""
    chosen = _choose(told, _PROJECT, ("core", "project"), environ)
    if chosen is None:
        raise BadInput(
            "no Google Cloud project is named",
            fix=f"{how}, or set {_PROJECT[0]}",
        )
    return chosen


def choose_zone(
    environ: Mapping[str, str] = os.environ, *, how: str = "write zones: in the target"
) -> Chosen:
    """Returns the zone of those who were told none. Raises BadInput when nobody names one; `how` says where to."""
    chosen = _choose(None, _ZONE, ("compute", "zone"), environ)
    if chosen is None:
        raise BadInput("no zone is named", fix=f"{how}, or set {_ZONE[0]}")
    return chosen


def _choose(
    told: str | None, variables: tuple[str, ...], key: tuple[str, str], environ: Mapping[str, str]
) -> Chosen | None:
    if told:
        return Chosen(told, "as told")
    for variable in variables:
        if environ.get(variable):
            return Chosen(environ[variable], variable)
    file = _gcloud_file(environ)
    parser = configparser.ConfigParser()
    try:
        parser.read(file)
        value = parser.get(*key, fallback="")
    except (configparser.Error, UnicodeDecodeError):  # whatever is wrong with it, it names nothing
        return None
    return Chosen(value, str(file)) if value else None


def _gcloud_file(environ: Mapping[str, str]) -> Path:
    """Returns the file of gcloud's active configuration, which need not be there."""
    folder = Path(environ.get("CLOUDSDK_CONFIG") or Path(environ.get("HOME", "/")) / ".config" / "gcloud")
    active = environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
    if not active:
        try:
            active = (folder / "active_config").read_text().strip()
        except OSError:
            active = "default"
    return folder / "configurations" / f"config_{active}"
