"""Looks whether an installed distribution is still what it was, by the hashes its installer wrote down."""

from __future__ import annotations

import base64
import csv
import hashlib
from pathlib import Path


def damaged_files(venv: Path, distribution: str) -> list[str]:
    """Returns the files of a distribution that are missing or changed; its RECORD too, when there is none."""
    name = distribution.replace("-", "_")
    records = list(venv.glob(f"lib/python*/site-packages/{name}-*.dist-info/RECORD"))
    if len(records) != 1:
        return [f"{distribution}'s RECORD"]
    site = records[0].parents[1]
    with records[0].open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3 and row[1]]
    return [path for path, digest, _ in rows if _digest(site / path) != digest]


def _digest(path: Path) -> str:
    try:
        hashed = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return ""
    return "sha256=" + base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
